"""Queues of manifests as facts for the rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lab.kai import VersionLine
from lab.lint.model import Manifest, QueueFact
from lab.lint.workloads import mapping
from lab.objects.kai import queue_path

GROUP = "scheduling.run.ai/"
RESOURCES = ("cpu", "memory", "gpu")


def is_queue(manifest: Manifest) -> bool:
    """Whether it is a KAI queue of the API version that KAI serves, v2 since 0.7."""
    return manifest.kind == "Queue" and manifest.api == f"{GROUP}v2"


def queue_facts(manifests: Iterable[Manifest]) -> dict[str, QueueFact]:
    """Return the queues among manifests by name. Omitted values are 0, as for KAI."""
    return {one.name: fact_of(one.name, one.spec) for one in manifests if is_queue(one) and one.name}


def fact_of(name: str, spec: Mapping[str, Any]) -> QueueFact:
    """Return a queue as a fact from its spec."""
    rows = mapping(spec.get("resources"))
    quota, limit = ({resource: amount(rows.get(resource), key) for resource in RESOURCES} for key in ("quota", "limit"))
    return QueueFact(name, str(spec.get("parentQueue") or ""), quota, limit)


def default_queues(line: VersionLine) -> dict[str, QueueFact]:
    """Return the queues of KAI's chart with its default values: quota 0, no limit."""
    quota, limit = dict.fromkeys(RESOURCES, 0.0), dict.fromkeys(RESOURCES, -1.0)
    pairs = zip(("", *line.default_queues), line.default_queues, strict=False)
    return {name: QueueFact(name, parent, quota, limit) for parent, name in pairs}


def amount(share: Any, key: str) -> float:
    """Return a number of a share; 0 if it is missing or not a number."""
    value = mapping(share).get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def ancestry(name: str, queues: Mapping[str, QueueFact]) -> tuple[str, ...]:
    """Return a queue and its known ancestors, nearest first; a loop is cut."""
    return queue_path(name, {queue.name: queue.parent for queue in queues.values()})
