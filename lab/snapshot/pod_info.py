"""A pod with what it requests, whose it is, and what it has of GPUs (kube-scheduler's PodInfo)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from lab.kai.names import GPU_RESOURCE, RESERVATION_APP
from lab.objects.bind_request import BindRequestView
from lab.objects.fields import Obj, parts
from lab.objects.pod import PodView
from lab.objects.pod_requests import PodRequests
from lab.objects.synced import SyncedObject

DEFAULT_SCHEDULER = "default-scheduler"

_REPLICA = "::"
"""Between a GPU's UUID and the number of a replica (k8s-device-plugin with sharing.timeSlicing)."""


class GpuRole(enum.Enum):
    """What a pod that has not ended has to do with GPUs."""

    RESERVATION = "reservation"
    FAILED_RESERVATION = "failed reservation"
    """KAI leaves it in place; its GPU is free for the kubelet."""
    SHARED = "shared"
    """Bound, on GPUs that it shares."""
    WHOLE = "whole"
    """Bound, with GPUs of its own."""
    WAITING = "waiting"
    """Without a node."""


@dataclass(frozen=True)
class PodInfo:
    """A pod, read once."""

    view: PodView
    requests: PodRequests
    synced: SyncedObject
    """Whose it is, and under which name."""
    reported_gpus: tuple[str, ...] = ()
    """UUIDs of GPUs of its own by its status, where the kubelet reports them (feature gate ResourceHealthStatus)."""

    @classmethod
    def of(cls, obj: Obj) -> PodInfo:
        return cls(PodView.of(obj), PodRequests.of(obj), SyncedObject.of(obj), reported_gpus(obj))

    @property
    def key(self) -> str:
        """``namespace/name`` in the cluster that it was read from."""
        return f"{self.view.namespace}/{self.view.name}"

    @property
    def tenant(self) -> str:
        """The vCluster that it is a copy for; empty for the cluster's own."""
        return self.synced.tenant

    @property
    def bound(self) -> bool:
        """Whether it holds what it was given: it is on a node and has not ended, even while it is being deleted.

        So count KAI (pkg/scheduler/api/pod_status, Bound to Releasing) and the kubelet.
        """
        return bool(self.view.node) and not self.view.ended

    @property
    def staying(self) -> bool:
        """Bound, and not being deleted."""
        return self.bound and not self.view.deleting

    @property
    def is_reservation(self) -> bool:
        """Whether a KAI made it to hold a GPU: the host's, or a tenant's own."""
        return self.synced.namespace == RESERVATION_APP and self.view.labels.get("app") == RESERVATION_APP

    @property
    def gpu_role(self) -> GpuRole | None:
        """What it has to do with GPUs; None for nothing, or no longer."""
        if self.is_reservation and self.view.phase == "Failed":
            return GpuRole.FAILED_RESERVATION
        if self.view.ended:
            return None
        if self.is_reservation:
            return GpuRole.RESERVATION
        # To every scheduler but KAI the annotations of a fraction mean nothing: such a pod has no GPU.
        by_kai = self.view.scheduler_name != DEFAULT_SCHEDULER or bool(self.view.gpu_groups)
        if not self.requests.gpus and not (self.requests.shares_gpu and by_kai):
            return None
        if not self.view.node:
            return GpuRole.WAITING
        return GpuRole.WHOLE if self.requests.gpus else GpuRole.SHARED

    def share(self, gpu_memory: int | None) -> float | None:
        """Part of each GPU that it shares; None where it asks for memory of a GPU of unknown size, or shares none.

        Args:
            gpu_memory: MiB of the GPU.
        """
        if self.requests.fraction is not None:
            return self.requests.fraction
        return self.requests.gpu_memory / gpu_memory if self.requests.gpu_memory and gpu_memory else None

    def gpus(self, gpu_memory: int | None) -> float:
        """GPUs that it requests in total, without GPU memory where ``gpu_memory`` (MiB of a GPU) is not known."""
        return self.requests.gpus + (self.share(gpu_memory) or 0.0) * self.requests.devices

    def assumed(self, request: BindRequestView) -> PodInfo:
        """The pod as if it were bound as KAI's scheduler has decided (kube-scheduler: an assumed pod)."""
        node, groups = self.view.node or request.node, self.view.gpu_groups or request.gpu_groups
        return replace(self, view=replace(self.view, node=node, gpu_groups=groups))

    @property
    def title(self) -> str:
        """How evidence names it; a tenant's copy also by its own name."""
        return f"pod {self.key} ({self.synced.title} of tenant {self.tenant})" if self.tenant else f"pod {self.key}"

    @property
    def line(self) -> str:
        view = self.view
        words = [view.phase or "no phase", f"on {view.node}" if view.node else "not bound"]
        if view.deleting:
            words.append("being deleted")
        if self.is_reservation:
            words.append(f"holds GPU {self.view.reserved_gpu or '(not told yet)'}")
        elif self.requests.wants_gpu:
            words.append(f"wants {self.requests.in_words()}")
        if view.gpu_groups:
            words.append(f"GPU group {', '.join(view.gpu_groups)}")
        return f"{self.title}: {', '.join(words)}"


def reported_gpus(pod: Obj) -> tuple[str, ...]:
    """UUIDs of the GPUs in the status of a Pod object; none where its kubelet does not report them."""
    found = [
        gpu_of(str(device.get("resourceID", "")))
        for state in parts(pod)[2].get("containerStatuses") or []
        for resource in state.get("allocatedResourcesStatus") or []
        if resource.get("name") == GPU_RESOURCE
        for device in resource.get("resources") or []
    ]
    return tuple(dict.fromkeys(uuid for uuid in found if uuid))


def gpu_of(device: str) -> str:
    """UUID of the GPU that a device of the device plugin is, or is a replica of."""
    return device.partition(_REPLICA)[0]
