"""Frozen views of KAI's own objects: PodGroups and queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from lab.kai.names import GPU_RESOURCE, RESERVATION_APP
from lab.objects.fields import Obj, annotations_of, labels_of, parts


@dataclass(frozen=True)
class Refusal:
    """Why KAI's scheduler did not place a PodGroup."""

    reason: str
    """OverLimit, NonPreemptibleOverQuota, QueueDoesNotExist (since KAI 0.13), Unschedulable and others."""
    message: str = ""


@dataclass(frozen=True)
class PodGroupView:
    """A PodGroup (scheduling.run.ai/v2alpha2), which KAI's pod-grouper makes for each workload."""

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
    annotations: Mapping[str, str]
    refusals: tuple[Refusal, ...]
    """What the scheduler says now; not renewed once pods of the group are placed."""
    gpus_allocated: float
    gpus_requested: float

    @classmethod
    def of(cls, obj: Obj) -> PodGroupView:
        meta, spec, status = parts(obj)
        owners = meta.get("ownerReferences") or []
        resources = status.get("resourcesStatus") or {}
        return cls(
            name=meta.get("name", ""),
            namespace=meta.get("namespace", ""),
            uid=meta.get("uid", ""),
            queue=spec.get("queue", ""),
            # KAI's default for a group that does not say.
            min_member=1 if spec.get("minMember") is None else int(spec["minMember"]),
            priority_class=spec.get("priorityClassName", ""),
            owner=next((f"{o['kind']}/{o['name']}" for o in owners), ""),
            labels=labels_of(meta),
            annotations=annotations_of(meta),
            refusals=tuple(r for c in status.get("schedulingConditions") or [] for r in _refusals(c)),
            gpus_allocated=_gpus(resources.get("allocated")),
            gpus_requested=_gpus(resources.get("requested")),
        )


@dataclass(frozen=True)
class QueueShare:
    """A queue's share of one resource; KAI reads what is left out as 0, and -1 is unlimited."""

    quota: float = 0.0
    limit: float = 0.0
    weight: float = 0.0
    """overQuotaWeight."""


@dataclass(frozen=True)
class Usage:
    """Resources in use, in the units of Share."""

    gpu: float = 0.0
    """In GPUs."""
    cpu: float = 0.0
    """In millicores."""
    memory: float = 0.0
    """In MB (10^6 bytes)."""


@dataclass(frozen=True)
class QueueView:
    """A queue (scheduling.run.ai/v2, cluster-scoped)."""

    name: str
    uid: str
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
    gpus_allocated: float
    gpus_requested: float
    labels: Mapping[str, str]
    allocated: Usage = Usage()
    """What pods of the queue and its children have, by the queue-controller."""
    allocated_non_preemptible: Usage = Usage()
    """The part of it that nothing may evict; this counts against the quota."""

    @classmethod
    def of(cls, obj: Obj) -> QueueView:
        meta, spec, status = parts(obj)
        resources = spec.get("resources") or {}
        return cls(
            name=meta.get("name", ""),
            uid=meta.get("uid", ""),
            parent=spec.get("parentQueue", ""),
            priority=100 if spec.get("priority") is None else int(spec["priority"]),
            gpu=_share(resources.get("gpu")),
            cpu=_share(resources.get("cpu")),
            memory=_share(resources.get("memory")),
            children=tuple(sorted(status.get("childQueues") or [])),
            gpus_allocated=_gpus(status.get("allocated")),
            gpus_requested=_gpus(status.get("requested")),
            labels=labels_of(meta),
            allocated=_usage(status.get("allocated")),
            allocated_non_preemptible=_usage(status.get("allocatedNonPreemptible")),
        )


def is_reservation(obj: Obj) -> bool:
    """Whether a Pod object is a reservation pod of the KAI in its own cluster; see also ``PodInfo.is_reservation``."""
    meta = obj.get("metadata") or {}
    return meta.get("namespace") == RESERVATION_APP and labels_of(meta).get("app") == RESERVATION_APP


def quantity(value: object) -> float:
    """A Kubernetes quantity as a number: ``250m`` is 0.25, ``1Gi`` is 1073741824.

    Raises:
        ValueError: it is no quantity.
    """
    text = str(value).strip()
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            return float(Decimal(text.removesuffix(suffix)) * factor)
    return float(text)


def amount(value: object) -> float:
    """A Kubernetes quantity as ``quantity`` reads it; 0 for what is none."""
    try:
        return quantity(value)
    except (ValueError, ArithmeticError):
        return 0.0


_SUFFIXES = {
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    **{letter: Decimal(1000) ** -power for power, letter in enumerate("mun", 1)},
}


def _refusals(condition: Obj) -> list[Refusal]:
    if condition.get("status") == "False":
        return []
    reasons = condition.get("reasons") or [condition]
    return [Refusal(r.get("reason", ""), r.get("message", "")) for r in reasons]


def _share(row: Obj | None) -> QueueShare:
    row = row or {}
    return QueueShare(*(float(row.get(key) or 0) for key in ("quota", "limit", "overQuotaWeight")))


def _usage(resources: Obj | None) -> Usage:
    row = resources or {}
    return Usage(
        gpu=quantity(row.get(GPU_RESOURCE, 0)),
        cpu=round(1000 * quantity(row.get("cpu", 0)), 3),
        memory=round(quantity(row.get("memory", 0)) / 1e6, 3),
    )


def _gpus(resources: Obj | None) -> float:
    return quantity((resources or {}).get(GPU_RESOURCE, 0))
