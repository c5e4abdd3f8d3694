"""Frozen views of what makes pods and what pods stand on: workloads, volume claims, resource quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.objects.fields import Condition, Obj, labels_of, owner_of, parts

WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicaSet")
"""Kinds that make pods, the ones that people name first."""


@dataclass(frozen=True)
class WorkloadView:
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet or Job."""

    kind: str
    name: str
    namespace: str
    uid: str
    want: int
    """Pods that it should have now."""
    have: int
    """Pods that it has, in any state."""
    paused: bool
    """A Job that is suspended, or a Deployment that is paused."""
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
        meta, spec, status = parts(obj)
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
            conditions=Condition.all_of({"status": status}),
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
    """None takes the default class; empty is none at all."""
    volume: str

    @classmethod
    def of(cls, obj: Obj) -> ClaimView:
        meta, spec, status = parts(obj)
        return cls(
            name=meta.get("name", ""),
            namespace=meta.get("namespace", ""),
            uid=meta.get("uid", ""),
            phase=status.get("phase", ""),
            storage_class=spec.get("storageClassName"),
            volume=spec.get("volumeName", ""),
        )


@dataclass(frozen=True)
class QuotaView:
    """A ResourceQuota: quantities as written."""

    name: str
    namespace: str
    hard: Mapping[str, str]
    used: Mapping[str, str]

    @classmethod
    def of(cls, obj: Obj) -> QuotaView:
        meta, spec, status = parts(obj)
        return cls(
            name=meta.get("name", ""),
            namespace=meta.get("namespace", ""),
            hard={key: str(value) for key, value in (status.get("hard") or spec.get("hard") or {}).items()},
            used={key: str(value) for key, value in (status.get("used") or {}).items()},
        )


def _counts(obj: Obj) -> tuple[int, int]:
    _, spec, status = parts(obj)
    kind = obj.get("kind")
    if kind == "DaemonSet":
        return int(status.get("desiredNumberScheduled") or 0), int(status.get("currentNumberScheduled") or 0)
    if kind == "Job":
        done = int(status.get("succeeded") or 0)
        wanted = 1 if spec.get("completions") is None else int(spec["completions"])
        at_once = 1 if spec.get("parallelism") is None else int(spec["parallelism"])
        return min(at_once, max(wanted - done, 0)), int(status.get("active") or 0)
    want = 1 if spec.get("replicas") is None else int(spec["replicas"])
    return want, int(status.get("replicas") or 0)
