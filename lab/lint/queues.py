"""Queues in manifests, as facts for the rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lab.kai import VersionLine
from lab.lint.model import Manifest, QueueFact

GROUP = "scheduling.run.ai/"
RESOURCES = ("cpu", "memory", "gpu")


def is_queue(manifest: Manifest) -> bool:
    """Whether it is a queue of KAI's."""
    return manifest.kind == "Queue" and manifest.api.startswith(GROUP)


def queue_facts(manifests: Iterable[Manifest]) -> dict[str, QueueFact]:
    """The queues among manifests, by name. What is left out counts as 0, as KAI reads it."""
    return {one.name: fact_of(one.name, one.spec) for one in manifests if is_queue(one) and one.name}


def fact_of(name: str, spec: Mapping[str, Any]) -> QueueFact:
    """A queue as a fact, from its spec."""
    resources = spec.get("resources")
    rows = resources if isinstance(resources, dict) else {}

    def shares(key: str) -> dict[str, float]:
        return {resource: amount(rows.get(resource), key) for resource in RESOURCES}

    return QueueFact(name, str(spec.get("parentQueue") or ""), shares("quota"), shares("limit"))


def default_queues(line: VersionLine) -> dict[str, QueueFact]:
    """The queues that KAI's chart makes, as its values have them: quota 0, no limit."""
    zero, free = dict.fromkeys(RESOURCES, 0.0), dict.fromkeys(RESOURCES, -1.0)
    parents_first = ("", *line.default_queues)
    return {
        name: QueueFact(name, parent, zero, free)
        for parent, name in zip(parents_first, line.default_queues, strict=False)
    }


def amount(share: Any, key: str) -> float:
    """A figure of a share; 0 where it is missing or no number."""
    value = share.get(key) if isinstance(share, dict) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def parents(queues: Mapping[str, QueueFact]) -> frozenset[str]:
    """Queues that have children."""
    return frozenset(queue.parent for queue in queues.values() if queue.parent)


def ancestry(name: str, queues: Mapping[str, QueueFact]) -> tuple[str, ...]:
    """The queue and what is above it, nearest first; ends before a name that comes twice or is not known."""
    seen: list[str] = []
    while name in queues and name not in seen:
        seen.append(name)
        name = queues[name].parent
    return tuple(seen)
