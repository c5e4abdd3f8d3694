"""What a lint rule looks at and what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.findings import Finding, Registry, Rule, Severity
from lab.kai import VersionLine
from lab.lint.document import Loc, ManifestDocument

Obj = dict[str, Any]


@dataclass(frozen=True)
class QueueFact:
    """A queue as far as it is known; shares by resource (cpu, memory, gpu) as written, missing ones left out."""

    name: str
    parent: str = ""
    quota: Mapping[str, float] = field(default_factory=dict)
    limit: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LintContext:
    """What the manifests will meet. None or 0 means that it is not known, and then nothing is said of it."""

    line: VersionLine
    queues: Mapping[str, QueueFact] | None = None
    """Queues of the lab or cluster; those in the linted files are added."""
    gpu_sharing: bool | None = None
    gpu_memory: int = 0
    """MiB of the largest GPU."""
    gpus_per_node: int = 0
    """GPUs of the node with most of them."""
    runtime_classes: frozenset[str] | None = None
    default_runtime_is_nvidia: bool = False
    """Whether a container without a RuntimeClass sees its GPU; not so in the lab's nodes."""
    opt_in: Mapping[str, str] = field(default_factory=dict)
    """Labels that a namespace must carry for KAI to look at it; empty: it looks at all."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Known namespaces with their labels; those in the linted files are added."""


@dataclass(frozen=True)
class PodPart:
    """The pod in a manifest: the manifest itself, or the template of a workload."""

    meta: Obj
    spec: Obj
    at: Loc
    """Where metadata and spec stand in the manifest."""

    @property
    def labels(self) -> Mapping[str, str]:
        return _texts(self.meta.get("labels"))

    @property
    def annotations(self) -> Mapping[str, str]:
        return _texts(self.meta.get("annotations"))

    @property
    def scheduler(self) -> str:
        """schedulerName; empty: the default scheduler."""
        return str(self.spec.get("schedulerName") or "")

    def containers(self) -> Iterator[tuple[Loc, Obj]]:
        """All containers, init containers last, with where each stands."""
        for key in ("containers", "initContainers"):
            for number, container in enumerate(self.spec.get(key) or []):
                if isinstance(container, dict):
                    yield (*self.at, "spec", key, number), container


def resources_of(container: Obj, side: str) -> Obj:
    """The ``limits`` or ``requests`` of a container; empty where they are missing or no mapping."""
    return _mapping(_mapping(container.get("resources")).get(side))


@dataclass(frozen=True)
class Manifest:
    """One object of a file."""

    obj: Obj
    document: ManifestDocument

    @property
    def kind(self) -> str:
        """Its kind; empty for a values file."""
        return str(self.obj.get("kind") or "")

    @property
    def api(self) -> str:
        """Its apiVersion."""
        return str(self.obj.get("apiVersion") or "")

    @property
    def meta(self) -> Obj:
        return _mapping(self.obj.get("metadata"))

    @property
    def spec(self) -> Obj:
        return _mapping(self.obj.get("spec"))

    @property
    def name(self) -> str:
        return str(self.meta.get("name") or self.meta.get("generateName") or "")

    @property
    def labels(self) -> Mapping[str, str]:
        """Its own labels, not those of its pods."""
        return _texts(self.meta.get("labels"))

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its own annotations, not those of its pods."""
        return _texts(self.meta.get("annotations"))

    def __str__(self) -> str:
        place = f"{self.meta['namespace']}/" if self.meta.get("namespace") else ""
        return f"{self.kind} {place}{self.name}" if self.kind else "values"

    @property
    def pod(self) -> PodPart | None:
        """The pod it is or makes; None for other kinds."""
        if self.kind == "Pod":
            return PodPart(self.meta, self.spec, ())
        where: Loc = ("spec", "jobTemplate", "spec", "template") if self.kind == "CronJob" else ("spec", "template")
        here: Any = self.obj
        for word in where:
            here = _mapping(here.get(word)) if isinstance(here, dict) else {}
        if not _mapping(here.get("spec")).get("containers"):
            return None
        return PodPart(_mapping(here.get("metadata")), here["spec"], where)

    def queue(self, key: str) -> tuple[Loc, str] | None:
        """The queue label that KAI takes, with where it stands: the workload's own before its pods'."""
        if key in self.labels:
            return ("metadata", "labels", key), self.labels[key]
        pod = self.pod
        if pod is not None and key in pod.labels:
            return (*pod.at, "metadata", "labels", key), pod.labels[key]
        return None


def found(at: Loc, what: str, fix: str, severity: Severity = "error") -> Finding:
    """What a rule found: where in the object, what will happen, how to mend it."""
    return Finding(what, fix, severity=severity, at=at)


Look = Callable[[Manifest, LintContext], Iterable[Finding]]

RULES: Registry[Rule[[Manifest, LintContext]]] = Registry("lint")
"""All rules in the order in which they are tried."""


def rule(name: str, title: str, source: str) -> Callable[[Look], Look]:
    """Put the decorated function into the registry."""

    def enter(look: Look) -> Look:
        RULES.add(Rule(name, title, look, source))
        return look

    return enter


def _mapping(value: Any) -> Obj:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> Mapping[str, str]:
    return {str(key): "" if text is None else str(text) for key, text in _mapping(value).items()}
