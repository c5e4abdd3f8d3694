"""Frozen views of nodes and of events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from lab.kai.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL, GPU_REPLICAS_LABEL
from lab.objects.fields import Condition, Obj, gpus_in, is_true, labels_of, parts, whole
from lab.objects.kai import amount


@dataclass(frozen=True)
class NodeView:
    """A node and its GPUs."""

    name: str
    ready: bool
    unschedulable: bool
    gpus: int
    """Allocatable nvidia.com/gpu."""
    gpu_memory: int | None
    """MiB of one GPU by the label nvidia.com/gpu.memory; KAI needs it for gpu-memory requests."""
    gpu_product: str
    labels: Mapping[str, str]
    taints: tuple[str, ...]
    """As kubectl writes them: ``key=value:Effect``."""
    capacity: Mapping[str, float]
    """Resource → amount that the node has: cpu in cores, memory in bytes."""
    allocatable: Mapping[str, float]
    """Resource → amount for pods; fewer GPUs than the capacity when some are unhealthy."""
    internal_ip: str
    kubelet_version: str
    conditions: tuple[Condition, ...]

    @property
    def gpu_replicas(self) -> int:
        """How many pods the device plugin gives one GPU to (time-slicing)."""
        return max(1, whole(self.labels.get(GPU_REPLICAS_LABEL)) or 1)

    @classmethod
    def of(cls, obj: Obj) -> NodeView:
        meta, spec, status = parts(obj)
        labels = labels_of(meta)
        conditions = Condition.all_of(obj)
        addresses = status.get("addresses") or []
        return cls(
            name=meta.get("name", ""),
            ready=is_true(conditions, "Ready"),
            unschedulable=bool(spec.get("unschedulable")),
            gpus=gpus_in(status.get("allocatable")),
            gpu_memory=whole(labels.get(GPU_MEMORY_LABEL)),
            gpu_product=labels.get(GPU_PRODUCT_LABEL, ""),
            labels=labels,
            taints=tuple(
                f"{t['key']}={t['value']}:{t['effect']}" if t.get("value") else f"{t['key']}:{t['effect']}"
                for t in spec.get("taints") or []
            ),
            capacity=_amounts(status.get("capacity")),
            allocatable=_amounts(status.get("allocatable")),
            internal_ip=next((a["address"] for a in addresses if a.get("type") == "InternalIP"), ""),
            kubelet_version=status.get("nodeInfo", {}).get("kubeletVersion", ""),
            conditions=conditions,
        )


@dataclass(frozen=True)
class EventView:
    """An event (core/v1), however its writer filled it in."""

    type: str
    """Normal or Warning."""
    reason: str
    message: str
    kind: str
    """Kind of the object it is about."""
    namespace: str
    name: str
    """Name of the object it is about."""
    uid: str
    """Uid of the object it is about; the kubelet gives a Node its name instead."""
    reporter: str
    """The component that wrote it."""
    count: int
    last: datetime | None
    """When it was seen last."""

    @classmethod
    def of(cls, obj: Obj) -> EventView:
        about = obj.get("involvedObject") or {}
        series = obj.get("series") or {}
        stamps = (
            series.get("lastObservedTime"),
            obj.get("lastTimestamp"),
            obj.get("eventTime"),
            obj.get("metadata", {}).get("creationTimestamp"),
        )
        last = next((stamp for stamp in stamps if stamp), None)
        return cls(
            type=obj.get("type", ""),
            reason=obj.get("reason", ""),
            message=obj.get("message", ""),
            kind=about.get("kind", ""),
            namespace=about.get("namespace", ""),
            name=about.get("name", ""),
            uid=about.get("uid", ""),
            reporter=obj.get("reportingComponent") or (obj.get("source") or {}).get("component", ""),
            count=series.get("count") or obj.get("count") or 1,
            last=datetime.fromisoformat(last) if last else None,
        )


def _amounts(resources: Obj | None) -> dict[str, float]:
    return {name: amount(value) for name, value in (resources or {}).items()}
