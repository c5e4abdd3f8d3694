"""A pod with its requests, its tenant and its GPUs (kube-scheduler's PodInfo)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from lab.kai.names import GPU_RESOURCE, RESERVATION_APP
from lab.objects.fields import Obj, parts
from lab.objects.kai import BindRequestView
from lab.objects.pod_requests import PodRequests
from lab.objects.synced import SyncedObject
from lab.objects.views import PodView

DEFAULT_SCHEDULER = "default-scheduler"


class GpuRole(enum.Enum):
    """How a pod that has not ended relates to GPUs."""

    RESERVATION = "reservation"
    FAILED_RESERVATION = "failed reservation"
    """KAI keeps the failed pod, but to the kubelet its GPU is free."""
    SHARED = "shared"
    """Bound, with shares of GPUs."""
    WHOLE = "whole"
    """Bound, with whole GPUs."""
    WAITING = "waiting"
    """Not bound."""


@dataclass(frozen=True)
class PodInfo:
    """A pod, parsed once."""

    view: PodView
    synced: SyncedObject
    """Its identity in the cluster that it comes from."""
    reported_gpus: tuple[str, ...] = ()
    """UUIDs of its whole GPUs, where the kubelet reports them (feature gate ResourceHealthStatus)."""

    @classmethod
    def of(cls, obj: Obj) -> PodInfo:
        return cls(PodView.of(obj), SyncedObject.of(obj), reported_gpus(obj))

    @property
    def requests(self) -> PodRequests:
        return self.view.requests

    @property
    def key(self) -> str:
        """``namespace/name`` in the cluster that it was read from."""
        return f"{self.view.namespace}/{self.view.name}"

    @property
    def tenant(self) -> str:
        """The vCluster that it was synced from; empty for the cluster's own pods."""
        return self.synced.tenant

    @property
    def bound(self) -> bool:
        """Whether it holds its resources: it is on a node and has not ended, even while it is being deleted.

        KAI (pkg/scheduler/api/pod_status, Bound to Releasing) and the kubelet count the same way.
        """
        return bool(self.view.node) and not self.view.ended

    @property
    def staying(self) -> bool:
        """Bound, and not being deleted."""
        return self.bound and not self.view.deleting

    @property
    def is_reservation(self) -> bool:
        """Whether it is a reservation pod of the host's KAI or of a tenant's own KAI."""
        return self.synced.namespace == RESERVATION_APP and self.view.labels.get("app") == RESERVATION_APP

    @property
    def gpu_role(self) -> GpuRole | None:
        """None without a GPU, or when it has ended."""
        if self.is_reservation and self.view.phase == "Failed":
            return GpuRole.FAILED_RESERVATION
        if self.view.ended:
            return None
        if self.is_reservation:
            return GpuRole.RESERVATION
        # Other schedulers ignore the annotations of a fraction: without KAI such a pod has no GPU.
        by_kai = self.view.scheduler_name != DEFAULT_SCHEDULER or bool(self.view.gpu_groups)
        if not self.requests.gpus and not (self.requests.shares_gpu and by_kai):
            return None
        if not self.view.node:
            return GpuRole.WAITING
        return GpuRole.WHOLE if self.requests.gpus else GpuRole.SHARED

    def share(self, gpu_memory: int | None) -> float | None:
        """Share of each of its GPUs; None if it shares none, or ``gpu_memory`` (MiB of a GPU) is needed but unknown."""
        if self.requests.fraction is not None:
            return self.requests.fraction
        return self.requests.gpu_memory / gpu_memory if self.requests.gpu_memory and gpu_memory else None

    def gpus(self, gpu_memory: int | None) -> float:
        """Total GPUs that it requests, without shares whose size depends on an unknown ``gpu_memory``."""
        return self.requests.gpus + (self.share(gpu_memory) or 0.0) * self.requests.devices

    def assumed(self, request: BindRequestView | None) -> PodInfo:
        """The pod as if it were bound as its BindRequest says (kube-scheduler: an assumed pod)."""
        if request is None:
            return self
        node, groups = self.view.node or request.node, self.view.gpu_groups or request.gpu_groups
        return replace(self, view=replace(self.view, node=node, gpu_groups=groups))

    @property
    def title(self) -> str:
        """Its name in messages; a synced pod also has its virtual name."""
        return f"pod {self.key} ({self.synced.title} of tenant {self.tenant})" if self.tenant else f"pod {self.key}"

    @property
    def line(self) -> str:
        """Its state in one line, for evidence."""
        view = self.view
        words = [view.phase or "no phase", f"on {view.node}" if view.node else "not bound"]
        if view.deleting:
            words.append("being deleted")
        if self.is_reservation:
            words.append(f"holds GPU {view.reserved_gpu or '(not reported yet)'}")
        elif self.requests.wants_gpu:
            words.append(f"requests {self.requests.in_words()}")
        if view.gpu_groups:
            words.append(f"GPU group {', '.join(view.gpu_groups)}")
        return f"{self.title}: {', '.join(words)}"


def reported_gpus(pod: Obj) -> tuple[str, ...]:
    """UUIDs of the GPUs in the status of a Pod object; empty where its kubelet does not report them."""
    found = [
        gpu_of(str(device.get("resourceID", "")))
        for state in parts(pod)[2].get("containerStatuses") or []
        for resource in state.get("allocatedResourcesStatus") or []
        if resource.get("name") == GPU_RESOURCE
        for device in resource.get("resources") or []
    ]
    return tuple(dict.fromkeys(uuid for uuid in found if uuid))


def gpu_of(device: str) -> str:
    """UUID of a device plugin's device, without ``::N`` of a replica (k8s-device-plugin with sharing.timeSlicing)."""
    return device.partition("::")[0]
