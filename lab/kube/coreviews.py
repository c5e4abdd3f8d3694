"""Frozen views of pods, nodes and events, with KAI's labels and annotations on them.

These are the same in KAI 0.7.11 to 0.17.0 (pkg/common/constants/constants.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lab.kube.redact import redact

GPU_RESOURCE = "nvidia.com/gpu"
GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"
GPU_PRODUCT_LABEL = "nvidia.com/gpu.product"
GPU_GROUP_LABEL = "runai-gpu-group"
QUEUE_LABEL = "kai.scheduler/queue"
POD_GROUP_ANNOTATION = "pod-group-name"
RECEIVED_ANNOTATION = "received-resource-type"
FRACTION_ANNOTATION = "gpu-fraction"
MEMORY_ANNOTATION = "gpu-memory"

Obj = Mapping[str, Any]


@dataclass(frozen=True)
class Condition:
    """A condition of an object's status."""

    type: str
    status: str
    """True, False or Unknown."""
    reason: str = ""
    message: str = ""

    @classmethod
    def all_of(cls, obj: Obj) -> tuple[Condition, ...]:
        """The conditions in ``status.conditions``."""
        return tuple(
            cls(c.get("type", ""), c.get("status", ""), c.get("reason", ""), c.get("message", ""))
            for c in obj.get("status", {}).get("conditions") or []
        )


@dataclass(frozen=True)
class Waiting:
    """A container that is not running, and why."""

    container: str
    reason: str
    message: str = ""


@dataclass(frozen=True)
class PodView:
    """A pod, with what KAI reads and writes on it."""

    name: str
    namespace: str
    uid: str
    phase: str
    """Pending, Running, Succeeded, Failed or Unknown."""
    reason: str
    """Why the pod failed as a whole, such as Evicted or UnexpectedAdmissionError."""
    node: str
    """Empty while the pod is not bound."""
    scheduler_name: str
    ready: bool
    deleting: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    """Without vCluster's tokens."""
    runtime_class: str
    waiting: tuple[Waiting, ...]
    """Containers that wait, init containers included."""
    restarts: int
    gpu_limit: int
    """Whole GPUs: nvidia.com/gpu in the limits of its containers."""
    gpu_fraction: float | None
    gpu_memory: int | None
    """MiB."""
    gpu_groups: tuple[str, ...]
    """The shared GPUs it is on, as KAI names them; one reservation pod each."""
    received_resource_type: str
    """Regular or Fraction once KAI's binder has bound it."""
    pod_group: str
    """Name of its PodGroup, in the pod's namespace."""
    queue: str
    conditions: tuple[Condition, ...]
    owner: str
    """Its controller as ``Kind/name``; empty for a bare pod."""

    @property
    def waiting_reasons(self) -> tuple[str, ...]:
        """Why containers wait, such as ImagePullBackOff."""
        return tuple(w.reason for w in self.waiting)

    @property
    def ended(self) -> bool:
        """Whether all containers have ended for good."""
        return self.phase in ("Succeeded", "Failed")

    @classmethod
    def of(cls, obj: Obj) -> PodView:
        """The view of a Pod object."""
        meta, spec, status = _parts(obj)
        labels, annotations = _labels(meta), _annotations(meta)
        states = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
        conditions = Condition.all_of(obj)
        return cls(
            name=meta.get("name", ""),
            namespace=meta.get("namespace", ""),
            uid=meta.get("uid", ""),
            phase=status.get("phase", ""),
            reason=status.get("reason", ""),
            node=spec.get("nodeName", ""),
            scheduler_name=spec.get("schedulerName", ""),
            ready=_is_true(conditions, "Ready"),
            deleting="deletionTimestamp" in meta,
            labels=labels,
            annotations=annotations,
            runtime_class=spec.get("runtimeClassName") or "",
            waiting=tuple(
                Waiting(state.get("name", ""), w.get("reason", ""), w.get("message", ""))
                for state in states
                if (w := state.get("state", {}).get("waiting")) is not None
            ),
            restarts=sum(state.get("restartCount", 0) for state in states),
            gpu_limit=sum(_gpus(c.get("resources", {}).get("limits")) for c in spec.get("containers") or []),
            gpu_fraction=_number(annotations.get(FRACTION_ANNOTATION)),
            gpu_memory=_whole(annotations.get(MEMORY_ANNOTATION)),
            gpu_groups=_gpu_groups(labels),
            received_resource_type=annotations.get(RECEIVED_ANNOTATION, ""),
            pod_group=annotations.get(POD_GROUP_ANNOTATION, ""),
            queue=labels.get(QUEUE_LABEL, ""),
            conditions=conditions,
            owner=_owner(meta),
        )


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
    internal_ip: str
    kubelet_version: str
    conditions: tuple[Condition, ...]

    @classmethod
    def of(cls, obj: Obj) -> NodeView:
        """The view of a Node object."""
        meta, spec, status = _parts(obj)
        labels = _labels(meta)
        conditions = Condition.all_of(obj)
        addresses = status.get("addresses") or []
        return cls(
            name=meta.get("name", ""),
            ready=_is_true(conditions, "Ready"),
            unschedulable=bool(spec.get("unschedulable")),
            gpus=_gpus(status.get("allocatable")),
            gpu_memory=_whole(labels.get(GPU_MEMORY_LABEL)),
            gpu_product=labels.get(GPU_PRODUCT_LABEL, ""),
            labels=labels,
            taints=tuple(
                f"{t['key']}={t['value']}:{t['effect']}" if t.get("value") else f"{t['key']}:{t['effect']}"
                for t in spec.get("taints") or []
            ),
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
        """The view of an Event object."""
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


def _parts(obj: Obj) -> tuple[Obj, Obj, Obj]:
    return obj.get("metadata") or {}, obj.get("spec") or {}, obj.get("status") or {}


def _labels(meta: Obj) -> dict[str, str]:
    return dict(meta.get("labels") or {})


def _annotations(meta: Obj) -> dict[str, str]:
    return redact(dict(meta.get("annotations") or {}))


def _is_true(conditions: tuple[Condition, ...], kind: str) -> bool:
    return any(c.type == kind and c.status == "True" for c in conditions)


def _owner(meta: Obj) -> str:
    owners = meta.get("ownerReferences") or []
    return next((f"{o['kind']}/{o['name']}" for o in owners if o.get("controller")), "")


def _gpu_groups(labels: Mapping[str, str]) -> tuple[str, ...]:
    """One group is the label's value; of several, each is part of a label's key."""
    several = [
        key.removeprefix(f"{GPU_GROUP_LABEL}/") for key in labels if key.startswith(f"{GPU_GROUP_LABEL}/")
    ]
    one = [labels[GPU_GROUP_LABEL]] if labels.get(GPU_GROUP_LABEL) else []
    return tuple(sorted({*one, *several}))


def _gpus(resources: Obj | None) -> int:
    return _whole((resources or {}).get(GPU_RESOURCE)) or 0


def _number(text: object) -> float | None:
    try:
        return float(str(text))
    except ValueError:
        return None


def _whole(text: object) -> int | None:
    try:
        return int(str(text))
    except ValueError:
        return None
