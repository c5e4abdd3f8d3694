"""The input of lint rules, and their registry."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lab.findings import Finding, Registry, Rule, Severity, title_of
from lab.kai import VersionLine
from lab.lint.document import Loc, ManifestDocument
from lab.lint.workloads import Obj, PodTemplate, WorkloadKind, kinds, mapping, templates, texts, value_at


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
    all_queues: bool = False
    """No other queue exists, in other files or the cluster."""
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


def resources_of(container: Obj, side: str) -> Obj:
    """Return the ``limits`` or ``requests`` of a container; empty if they are missing or not a mapping."""
    return mapping(mapping(container.get("resources")).get(side))


@dataclass(frozen=True)
class Manifest:
    """One object of a file."""

    obj: Obj
    document: ManifestDocument
    number: int = 0
    """The pod template that ``pod`` returns."""

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
        return texts(self.meta.get("labels"))

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its own annotations, not those of its pods."""
        return texts(self.meta.get("annotations"))

    def __str__(self) -> str:
        if self.document.problem:
            return "text"
        namespace = f"{self.meta['namespace']}/" if self.meta.get("namespace") else ""
        return f"{self.kind} {namespace}{self.name}" if self.kind else "values"

    @functools.cached_property
    def workload(self) -> WorkloadKind | None:
        """What is known about its kind; None for other kinds."""
        group = self.api.rpartition("/")[0]
        return kinds().get(f"{self.kind}.{group}" if group else self.kind)

    @functools.cached_property
    def pods(self) -> tuple[PodTemplate, ...]:
        """Its pod templates, or the pod itself; empty for other kinds."""
        return tuple(templates(self.obj, self.workload)) if self.kind else ()

    @property
    def pod(self) -> PodTemplate | None:
        """The pod template that is looked at, by default the first; None for other kinds."""
        return self.pods[self.number] if self.pods else None

    def containers(self) -> Iterator[tuple[Loc, Obj]]:
        """Yield the containers of its pod with their locations, init containers last."""
        if (pod := self.pod) is None:
            return
        for key in ("container", "script"):  # of an Argo Workflow
            if isinstance(pod.spec.get(key), dict):
                yield (*pod.spec_at, key), pod.spec[key]
        for key in ("containers", "initContainers"):
            found = pod.spec.get(key)
            for number, container in enumerate(found if isinstance(found, list) else []):
                if isinstance(container, dict):
                    yield (*pod.spec_at, key, number), container

    def has_own_group(self, line: VersionLine) -> bool:
        """Whether the pod-grouper skips it: a PodGroup of its author's has the queue and the minimum of pods."""
        sides = (self.annotations, self.pod.annotations if self.pod else {})
        key = line.keys.skip_pod_grouper
        return bool(key) and any(annotations.get(key) == "true" for annotations in sides)

    @property
    def owner(self) -> tuple[Loc, Obj]:
        """Location and metadata of the object whose labels KAI reads beside those of the pods."""
        path = self.workload.owner if self.workload else ""
        loc: Loc = (*path.split("."), "metadata") if path else ("metadata",)
        return loc, mapping(value_at(self.obj, loc))

    def label(self, key: str) -> tuple[Loc, str] | None:
        """Return the label that KAI reads for the pod, with its location: of its owner, or of the pod."""
        owner_at, owner = self.owner
        sides = [((*owner_at, "labels", key), texts(owner.get("labels")))]
        if (pod := self.pod) is not None:
            sides.append(((*pod.meta_at, "labels", key), pod.labels))
        if self.workload and self.workload.pod_first:
            sides.reverse()
        return next(((at, labels[key]) for at, labels in sides if key in labels), None)


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
