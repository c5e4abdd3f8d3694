"""The frozen view of a pod, with KAI's labels and annotations on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.kai.names import (
    FRACTION_ANNOTATION,
    GPU_GROUP_LABEL,
    MEMORY_ANNOTATION,
    POD_GROUP_ANNOTATION,
    QUEUE_LABEL,
    RECEIVED_ANNOTATION,
    RESERVED_GPU_ANNOTATION,
)
from lab.objects.fields import (
    Condition,
    Obj,
    annotations_of,
    gpus_in,
    is_true,
    labels_of,
    number,
    owner_of,
    parts,
    whole,
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
    def reserved_gpu(self) -> str:
        """UUID of the GPU that a reservation pod has found; empty before that."""
        return self.annotations.get(RESERVED_GPU_ANNOTATION, "")

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
        meta, spec, status = parts(obj)
        labels, annotations = labels_of(meta), annotations_of(meta)
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
            ready=is_true(conditions, "Ready"),
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
            gpu_limit=sum(gpus_in(c.get("resources", {}).get("limits")) for c in spec.get("containers") or []),
            gpu_fraction=number(annotations.get(FRACTION_ANNOTATION)),
            gpu_memory=whole(annotations.get(MEMORY_ANNOTATION)),
            gpu_groups=_gpu_groups(labels),
            received_resource_type=annotations.get(RECEIVED_ANNOTATION, ""),
            pod_group=annotations.get(POD_GROUP_ANNOTATION, ""),
            queue=labels.get(QUEUE_LABEL, ""),
            conditions=conditions,
            owner=owner_of(meta),
        )


def _gpu_groups(labels: Mapping[str, str]) -> tuple[str, ...]:
    """One group is the label's value; of several, each is part of a label's key."""
    several = [key.removeprefix(f"{GPU_GROUP_LABEL}/") for key in labels if key.startswith(f"{GPU_GROUP_LABEL}/")]
    one = [labels[GPU_GROUP_LABEL]] if labels.get(GPU_GROUP_LABEL) else []
    return tuple(sorted({*one, *several}))
