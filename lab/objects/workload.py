"""Frozen views of workloads and volume claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.objects.fields import Obj, labels_of, owner_of, parts
from lab.objects.views import Condition

WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicaSet")
"""Kinds whose controllers create pods, most common first."""


@dataclass(frozen=True)
class WorkloadView:
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet or Job."""

    kind: str
    name: str
    namespace: str
    uid: str
    want: int
    """Desired pods."""
    have: int
    """Existing pods, in any state."""
    paused: bool
    """A suspended Job or a paused Deployment."""
    owner: str
    """Its controller as ``Kind/name``."""
    labels: Mapping[str, str]
    template: Obj
    """The pod template: metadata and spec."""
    conditions: tuple[Condition, ...]

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @classmethod
    def of(cls, obj: Obj) -> WorkloadView:
        meta, spec, _ = parts(obj)
        want, have = _counts(obj)
        return cls(
            kind=str(obj.get("kind", "")),
            name=meta.get("name", ""),
            namespace=meta.get("namespace", ""),
            uid=meta.get("uid", ""),
            want=want,
            have=have,
            paused=bool(spec.get("suspend") or spec.get("paused")),
            owner=owner_of(meta),
            labels=labels_of(meta),
            template=spec.get("template") or {},
            conditions=Condition.all_of(obj),
        )


@dataclass(frozen=True)
class ClaimView:
    """A PersistentVolumeClaim."""

    name: str
    namespace: str
    uid: str
    phase: str
    """Pending, Bound or Lost."""
    storage_class: str | None
    """None selects the default class; an empty string selects no class."""

    @classmethod
    def of(cls, obj: Obj) -> ClaimView:
        meta, spec, status = parts(obj)
        return cls(
            name=meta.get("name", ""),
            namespace=meta.get("namespace", ""),
            uid=meta.get("uid", ""),
            phase=status.get("phase", ""),
            storage_class=spec.get("storageClassName"),
        )


def _counts(obj: Obj) -> tuple[int, int]:
    _, spec, status = parts(obj)
    kind = obj.get("kind")
    if kind == "DaemonSet":
        return int(status.get("desiredNumberScheduled") or 0), int(status.get("currentNumberScheduled") or 0)
    if kind == "Job":
        done = int(status.get("succeeded") or 0)
        completions = 1 if spec.get("completions") is None else int(spec["completions"])
        parallelism = 1 if spec.get("parallelism") is None else int(spec["parallelism"])
        return min(parallelism, max(completions - done, 0)), int(status.get("active") or 0)
    want = 1 if spec.get("replicas") is None else int(spec["replicas"])
    return want, int(status.get("replicas") or 0)
