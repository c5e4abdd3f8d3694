"""The input of lint rules, and their registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.findings import Finding, Registry, Rule, Severity, title_of
from lab.kai import VersionLine
from lab.lint.document import Loc, ManifestDocument

Obj = dict[str, Any]


@dataclass(frozen=True)
class QueueFact:
    """The known part of a queue: quota and limit by resource (cpu, memory, gpu) in the units of Queues."""

    name: str
    parent: str = ""
    quota: Mapping[str, float] = field(default_factory=dict)
    limit: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LintContext:
    """The cluster for which manifests are checked. None or 0 means unknown; rules that need the value find nothing."""

    line: VersionLine
    queues: Mapping[str, QueueFact] | None = None
    """Queues of the lab or cluster; those in the linted files are added."""
    gpu_sharing: bool | None = None
    gpu_memory: int = 0
    """MiB of the largest GPU."""
    gpus_per_node: int = 0
    """GPUs of the node with most GPUs."""
    runtime_classes: frozenset[str] | None = None
    opt_in: Mapping[str, str] = field(default_factory=dict)
    """Labels that a namespace needs for KAI to watch it; empty if KAI watches all namespaces."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Known namespaces with their labels; those in the linted files are added."""


@dataclass(frozen=True)
class PodTemplate:
    """The pod in a manifest: the manifest itself, or the template of a workload."""

    meta: Obj
    spec: Obj
    at: Loc
    """Location of metadata and spec in the manifest."""

    @property
    def labels(self) -> Mapping[str, str]:
        return _texts(self.meta.get("labels"))

    @property
    def annotations(self) -> Mapping[str, str]:
        return _texts(self.meta.get("annotations"))

    @property
    def scheduler(self) -> str:
        """schedulerName; empty for the default scheduler."""
        return str(self.spec.get("schedulerName") or "")


def resources_of(container: Obj, side: str) -> Obj:
    """Return the ``limits`` or ``requests`` of a container; empty if they are missing or not a mapping."""
    return mapping(mapping(container.get("resources")).get(side))


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
        return mapping(self.obj.get("metadata"))

    @property
    def spec(self) -> Obj:
        return mapping(self.obj.get("spec"))

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
        namespace = f"{self.meta['namespace']}/" if self.meta.get("namespace") else ""
        return f"{self.kind} {namespace}{self.name}" if self.kind else "values"

    @property
    def pod(self) -> PodTemplate | None:
        """The pod, or the pod template of a workload; None for other kinds."""
        if self.kind == "Pod":
            return PodTemplate(self.meta, self.spec, ())
        at: Loc = ("spec", "jobTemplate", "spec", "template") if self.kind == "CronJob" else ("spec", "template")
        template = self.obj
        for key in at:
            template = mapping(template.get(str(key)))
        if not mapping(template.get("spec")).get("containers"):
            return None
        return PodTemplate(mapping(template.get("metadata")), template["spec"], at)

    def containers(self) -> Iterator[tuple[Loc, Obj]]:
        """Yield the containers of its pod with their locations, init containers last."""
        if (pod := self.pod) is None:
            return
        for key in ("containers", "initContainers"):
            for number, container in enumerate(pod.spec.get(key) or []):
                if isinstance(container, dict):
                    yield (*pod.at, "spec", key, number), container

    def queue(self, key: str) -> tuple[Loc, str] | None:
        """Return the effective queue label with its location: the workload's own precedes that of its pods."""
        if key in self.labels:
            return ("metadata", "labels", key), self.labels[key]
        pod = self.pod
        if pod is not None and key in pod.labels:
            return (*pod.at, "metadata", "labels", key), pod.labels[key]
        return None


def finding(at: Loc, what: str, fix: str, severity: Severity = "error") -> Finding:
    """Return a finding about the value at a location."""
    return Finding(what, fix, severity=severity, at=at)


Find = Callable[[Manifest, LintContext], Iterable[Finding]]

RULES: Registry[Rule[[Manifest, LintContext]]] = Registry("lint")
"""All rules in the order in which they are applied."""


def rule(name: str, source: str) -> Callable[[Find], Find]:
    """Register the decorated function as a rule; its docstring begins with the rule's title (``title_of``)."""

    def register(find: Find) -> Find:
        RULES.add(Rule(name, title_of(find), find, source))
        return find

    return register


def mapping(value: Any) -> Obj:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> Mapping[str, str]:
    return {str(key): "" if text is None else str(text) for key, text in mapping(value).items()}
