"""Frozen views of KAI's objects: PodGroups, queues and BindRequests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.kai.names import GPU_RESOURCE, RESERVATION_APP
from lab.objects.fields import Obj, labels_of, parts, quantity


@dataclass(frozen=True)
class Refusal:
    """A reason why KAI's scheduler did not place a PodGroup."""

    reason: str
    """OverLimit, NonPreemptibleOverQuota, QueueDoesNotExist (since KAI 0.13), Unschedulable and others."""
    message: str = ""


@dataclass(frozen=True)
class PodGroupView:
    """A PodGroup (scheduling.run.ai/v2alpha2), which KAI's pod-grouper creates for each workload."""

    name: str
    namespace: str
    uid: str
    queue: str
    min_member: int
    priority_class: str
    """train, build or inference, by the kind of its owner."""
    owner: str
    """The workload as ``Kind/name``."""
    labels: Mapping[str, str]
    refusals: tuple[Refusal, ...]
    """The scheduler's latest reasons; not updated once pods of the group are placed."""
    gpus_allocated: float

    @classmethod
    def of(cls, obj: Obj) -> PodGroupView:
        meta, spec, status = parts(obj)
        owners = meta.get("ownerReferences") or []
        return cls(
            name=meta.get("name", ""),
            namespace=meta.get("namespace", ""),
            uid=meta.get("uid", ""),
            queue=spec.get("queue", ""),
            min_member=1 if spec.get("minMember") is None else int(spec["minMember"]),  # KAI's default
            priority_class=spec.get("priorityClassName", ""),
            owner=next((f"{o['kind']}/{o['name']}" for o in owners), ""),
            labels=labels_of(meta),
            refusals=tuple(r for c in status.get("schedulingConditions") or [] for r in _refusals(c)),
            gpus_allocated=usage_of((status.get("resourcesStatus") or {}).get("allocated")).gpu,
        )


@dataclass(frozen=True)
class QueueShare:
    """A queue's share of one resource; KAI reads a missing field as 0, and -1 is unlimited."""

    quota: float = 0.0
    limit: float = 0.0
    weight: float = 0.0
    """overQuotaWeight."""


@dataclass(frozen=True)
class Usage:
    """Resources in use, in the units of QueueView."""

    gpu: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0


@dataclass(frozen=True)
class QueueView:
    """A queue (scheduling.run.ai/v2, cluster-scoped)."""

    name: str
    parent: str
    priority: int
    """Higher first among siblings; KAI's default is 100."""
    gpu: QueueShare
    """In GPUs."""
    cpu: QueueShare
    """In millicores."""
    memory: QueueShare
    """In MB (10^6 bytes)."""
    children: tuple[str, ...]
    allocated: Usage
    """Used by pods of the queue and its children, as the queue-controller counts."""
    allocated_non_preemptible: Usage
    """The part of it that cannot be preempted; this counts against the quota."""

    @classmethod
    def of(cls, obj: Obj) -> QueueView:
        meta, spec, status = parts(obj)
        resources = spec.get("resources") or {}
        return cls(
            name=meta.get("name", ""),
            parent=spec.get("parentQueue", ""),
            priority=100 if spec.get("priority") is None else int(spec["priority"]),
            gpu=_share(resources.get("gpu")),
            cpu=_share(resources.get("cpu")),
            memory=_share(resources.get("memory")),
            children=tuple(sorted(status.get("childQueues") or [])),
            allocated=usage_of(status.get("allocated")),
            allocated_non_preemptible=usage_of(status.get("allocatedNonPreemptible")),
        )


def queue_path(name: str, parents: Mapping[str, str]) -> tuple[str, ...]:
    """Return a queue and its ancestors, nearest first; ends before an unknown name and before a repeated one."""
    path: list[str] = []
    while name in parents and name not in path:
        path.append(name)
        name = parents[name]
    return tuple(path)


@dataclass(frozen=True)
class BindRequestView:
    """A BindRequest (scheduling.run.ai/v1alpha2), named like its pod.

    It is deleted with the pod, or by the scheduler once it has failed.

    Source: pkg/apis/scheduling/v1alpha2/bindrequest_types.go, KAI 0.7.0 to 0.17.0. ``selectedFractionalGpuGroups`` of
    0.18, which deprecates ``selectedGPUGroups``, was only read in that file, not seen in a cluster.
    """

    name: str
    namespace: str
    pod: str
    node: str
    """The node that the scheduler chose."""
    resource_type: str
    """Regular or Fraction."""
    gpu_groups: tuple[str, ...]
    """The GPU groups that the pod joins; the binder creates missing reservation pods."""
    phase: str
    """Pending, Succeeded or Failed; empty before the binder has seen it."""
    reason: str
    failed_attempts: int

    @classmethod
    def of(cls, obj: Obj) -> BindRequestView:
        meta, spec, status = parts(obj)
        return cls(
            name=meta.get("name", ""),
            namespace=meta.get("namespace", ""),
            pod=spec.get("podName", ""),
            node=spec.get("selectedNode", ""),
            resource_type=spec.get("receivedResourceType", ""),
            gpu_groups=tuple(
                [one.get("id", "") for one in spec.get("selectedFractionalGpuGroups") or ()]
                or spec.get("selectedGPUGroups")
                or ()
            ),
            phase=status.get("phase", ""),
            reason=status.get("reason", ""),
            failed_attempts=int(status.get("failedAttempts") or 0),
        )


def is_reservation(obj: Obj) -> bool:
    """Whether a Pod object is a reservation pod of its own cluster's KAI; see also ``PodInfo.is_reservation``."""
    meta = parts(obj)[0]
    return meta.get("namespace") == RESERVATION_APP and labels_of(meta).get("app") == RESERVATION_APP


def _refusals(condition: Obj) -> list[Refusal]:
    if condition.get("status") == "False":
        return []
    reasons = condition.get("reasons") or [condition]
    return [Refusal(r.get("reason", ""), r.get("message", "")) for r in reasons]


def _share(row: Obj | None) -> QueueShare:
    row = row or {}
    return QueueShare(*(float(row.get(key) or 0) for key in ("quota", "limit", "overQuotaWeight")))


def usage_of(resources: Obj | None) -> Usage:
    """Return a resource list of KAI's status in the units of QueueView."""
    row = resources or {}
    return Usage(
        gpu=quantity(row.get(GPU_RESOURCE, 0)),
        cpu=round(1000 * quantity(row.get("cpu", 0)), 3),
        memory=round(quantity(row.get("memory", 0)) / 1e6, 3),
    )
