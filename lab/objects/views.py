"""Frozen views of Kubernetes objects, with KAI's labels and annotations. Each view has ``of(object)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from lab.kai.names import (
    GPU_GROUP_LABEL,
    GPU_MEMORY_LABEL,
    GPU_PRODUCT_LABEL,
    GPU_REPLICAS_LABEL,
    GPU_RESOURCE,
    POD_GROUP_ANNOTATION,
    QUEUE_LABEL,
    RECEIVED_ANNOTATION,
    RESERVED_GPU_ANNOTATION,
)
from lab.objects.fields import Obj, amounts, annotations_of, labels_of, owner_of, parts, whole
from lab.objects.pod_requests import PodRequests


@dataclass(frozen=True)
class Condition:
    """A condition of an object's status."""

    type: str
    status: str
    """True, False or Unknown."""
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    """Its last transition."""

    @classmethod
    def all_of(cls, obj: Obj) -> tuple[Condition, ...]:
        return tuple(
            cls(
                type=c.get("type", ""),
                status=c.get("status", ""),
                reason=c.get("reason", ""),
                message=c.get("message", ""),
                since=datetime.fromisoformat(at) if (at := c.get("lastTransitionTime")) else None,
            )
            for c in parts(obj)[2].get("conditions") or []
        )


def is_true(conditions: tuple[Condition, ...], kind: str) -> bool:
    """Whether the condition of this type is True."""
    return any(c.type == kind and c.status == "True" for c in conditions)


@dataclass(frozen=True)
class ContainerView:
    """A container's current state and its previous termination."""

    name: str
    init: bool
    """An init container or a sidecar."""
    ready: bool
    state: str
    """waiting, running, terminated, or empty before the kubelet reports it."""
    reason: str
    message: str
    exit_code: int | None
    last_reason: str
    """Reason of the previous termination, such as Error or OOMKilled."""
    last_exit: int | None
    last_message: str
    """The container runtime's message about a run that could not start."""
    restarts: int
    started: datetime | None = None
    """Start of the current run, in whole seconds; None unless it runs."""

    @classmethod
    def of(cls, obj: Obj, *, init: bool = False) -> ContainerView:
        """The view of an entry in a pod's containerStatuses."""
        states = obj.get("state") or {}
        name = next(iter(states), "")
        current = states.get(name) or {}
        last = (obj.get("lastState") or {}).get("terminated") or {}
        started = current.get("startedAt") if name == "running" else None
        return cls(
            name=obj.get("name", ""),
            init=init,
            ready=bool(obj.get("ready")),
            state=name,
            reason=current.get("reason", ""),
            message=current.get("message", ""),
            exit_code=current.get("exitCode"),
            last_reason=last.get("reason", ""),
            last_exit=last.get("exitCode"),
            last_message=last.get("message", ""),
            restarts=int(obj.get("restartCount") or 0),
            started=datetime.fromisoformat(started) if started else None,
        )

    @classmethod
    def all_of(cls, pod: Obj) -> tuple[ContainerView, ...]:
        """All containers of a Pod object, init containers first."""
        status = parts(pod)[2]
        first = (cls.of(entry, init=True) for entry in status.get("initContainerStatuses") or [])
        return (*first, *(cls.of(entry) for entry in status.get("containerStatuses") or []))


@dataclass(frozen=True)
class PodView:
    """A pod, with KAI's labels and annotations."""

    name: str
    namespace: str
    uid: str
    phase: str
    """Pending, Running, Succeeded, Failed or Unknown."""
    reason: str
    """Reason for the failure of the whole pod, such as Evicted or UnexpectedAdmissionError."""
    node: str
    """Empty until the pod is bound."""
    scheduler_name: str
    ready: bool
    deleting: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    """Without vCluster's tokens."""
    runtime_class: str
    containers: tuple[ContainerView, ...]
    """Init containers first."""
    requests: PodRequests
    gpu_groups: tuple[str, ...]
    """KAI's names of the GPUs that it shares; each has one reservation pod."""
    received_resource_type: str
    """Regular or Fraction once KAI's binder has bound it."""
    pod_group: str
    """Name of its PodGroup, in the pod's namespace."""
    queue: str
    conditions: tuple[Condition, ...]
    owner: str
    """Its controller as ``Kind/name``; empty for a bare pod."""

    @property
    def reserved_gpu(self) -> str:
        """UUID of the GPU that a reservation pod reports; empty before it does."""
        return self.annotations.get(RESERVED_GPU_ANNOTATION, "")

    @property
    def waiting(self) -> tuple[ContainerView, ...]:
        return tuple(container for container in self.containers if container.state == "waiting")

    @property
    def waiting_reasons(self) -> tuple[str, ...]:
        """Reasons of the waiting containers, such as ImagePullBackOff."""
        return tuple(w.reason for w in self.waiting)

    @property
    def restarts(self) -> int:
        return sum(container.restarts for container in self.containers)

    def ready_since(self, starts: Mapping[str, datetime]) -> bool:
        """Whether it is Ready, is not being deleted, and its containers run since the last start of its node.

        ``starts`` has these by node name; of a node that it lacks, the status is believed.
        After a restart of its node a pod still shows its old status, until the kubelet writes a new one.
        """
        if not self.ready or self.deleting:
            return False
        node = starts.get(self.node)
        runs = [container.started for container in self.containers if container.started is not None]
        return node is None or (bool(runs) and min(runs) >= node.replace(microsecond=0))

    @property
    def ended(self) -> bool:
        """Whether all containers have terminated for good."""
        return self.phase in ("Succeeded", "Failed")

    @classmethod
    def of(cls, obj: Obj) -> PodView:
        meta, spec, status = parts(obj)
        labels, annotations = labels_of(meta), annotations_of(meta)
        conditions = Condition.all_of(obj)
        return cls(
            name=meta.get("name", ""),
            namespace=meta.get("namespace", ""),
            uid=meta.get("uid", ""),
            phase=status.get("phase", ""),
            reason=status.get("reason", ""),
            node=spec.get("nodeName", ""),
            scheduler_name=spec.get("schedulerName", ""),
            ready=is_true(conditions, "Ready"),
            deleting="deletionTimestamp" in meta,
            labels=labels,
            annotations=annotations,
            runtime_class=spec.get("runtimeClassName") or "",
            containers=ContainerView.all_of(obj),
            requests=PodRequests.of(obj),
            gpu_groups=_gpu_groups(labels),
            received_resource_type=annotations.get(RECEIVED_ANNOTATION, ""),
            pod_group=annotations.get(POD_GROUP_ANNOTATION, ""),
            queue=labels.get(QUEUE_LABEL, ""),
            conditions=conditions,
            owner=owner_of(meta),
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
    """As kubectl prints them: ``key=value:Effect``."""
    capacity: Mapping[str, float]
    """Resource → amount: cpu in cores, memory in bytes."""
    allocatable: Mapping[str, float]
    """Resource → amount for pods; fewer GPUs than the capacity when some are unhealthy."""
    kubelet_version: str
    conditions: tuple[Condition, ...]

    @property
    def gpu_replicas(self) -> int:
        """Replicas of each GPU that the device plugin advertises (time-slicing)."""
        return max(1, whole(self.labels.get(GPU_REPLICAS_LABEL)) or 1)

    @classmethod
    def of(cls, obj: Obj) -> NodeView:
        meta, spec, status = parts(obj)
        labels = labels_of(meta)
        conditions = Condition.all_of(obj)
        return cls(
            name=meta.get("name", ""),
            ready=is_true(conditions, "Ready"),
            unschedulable=bool(spec.get("unschedulable")),
            gpus=whole((status.get("allocatable") or {}).get(GPU_RESOURCE)) or 0,
            gpu_memory=whole(labels.get(GPU_MEMORY_LABEL)),
            gpu_product=labels.get(GPU_PRODUCT_LABEL, ""),
            labels=labels,
            taints=tuple(
                f"{t['key']}={t['value']}:{t['effect']}" if t.get("value") else f"{t['key']}:{t['effect']}"
                for t in spec.get("taints") or []
            ),
            capacity=amounts(status.get("capacity")),
            allocatable=amounts(status.get("allocatable")),
            kubelet_version=status.get("nodeInfo", {}).get("kubeletVersion", ""),
            conditions=conditions,
        )


@dataclass(frozen=True)
class EventView:
    """An event (core/v1) in the old or the new format."""

    type: str
    """Normal or Warning."""
    reason: str
    message: str
    kind: str
    """Kind of the involved object, like ``namespace``, ``name`` and ``uid``."""
    namespace: str
    name: str
    uid: str
    """The kubelet writes a Node's name here."""
    reporter: str
    """The component that wrote it."""
    count: int
    last: datetime | None
    """Time of the last occurrence."""

    @classmethod
    def of(cls, obj: Obj) -> EventView:
        about = obj.get("involvedObject") or {}
        series = obj.get("series") or {}
        last = (
            series.get("lastObservedTime")
            or obj.get("lastTimestamp")
            or obj.get("eventTime")
            or obj.get("metadata", {}).get("creationTimestamp")
        )
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


def _gpu_groups(labels: Mapping[str, str]) -> tuple[str, ...]:
    """A single group is the value of the label; several groups are parts of label keys."""
    several = [key.removeprefix(f"{GPU_GROUP_LABEL}/") for key in labels if key.startswith(f"{GPU_GROUP_LABEL}/")]
    one = [labels[GPU_GROUP_LABEL]] if labels.get(GPU_GROUP_LABEL) else []
    return tuple(sorted({*one, *several}))
