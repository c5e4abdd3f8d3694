"""Sorts pods by what they have to do with GPUs: reservation pods, pods on GPUs, pods that wait for one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lab.gpu.map.kubelet import told_by_status
from lab.gpu.map.model import Holder, WaitingPod
from lab.objects.fields import Obj
from lab.objects.kai import RESERVATION_APP, RESERVED_GPU_ANNOTATION
from lab.objects.pod_requests import PodRequests
from lab.objects.views import PodView
from lab.text import count
from lab.workloads.namespace import MANAGED_BY_LABEL, VIRTUAL_NAME, VIRTUAL_NAMESPACE_LABEL

DEFAULT_SCHEDULER = "default-scheduler"


@dataclass(frozen=True)
class GpuPod:
    """A pod that has or wants GPUs, with its names on both sides."""

    view: PodView
    needs: PodRequests
    tenant: str
    namespace: str
    name: str
    told: tuple[str, ...]
    """UUIDs of its GPUs by its status, where the kubelet tells."""

    @property
    def on_host(self) -> str:
        """``namespace/name`` on the host."""
        return f"{self.view.namespace}/{self.view.name}"

    @property
    def reserver(self) -> str:
        """A reservation pod as its owner sees it: a tenant's own KAI made it, or the host's."""
        return f"{self.name} of tenant {self.tenant}" if self.tenant else self.name

    @property
    def phase(self) -> str:
        """Its phase, or that it is being deleted, or why its container does not start."""
        if self.view.deleting:
            return "Deleting"
        if self.view.phase == "Pending" and self.view.waiting_reasons:
            return self.view.waiting_reasons[0]
        return "Starting" if self.view.phase == "Pending" else self.view.phase

    @property
    def reserved_uuid(self) -> str:
        """Of a reservation pod: the GPU it says it found."""
        return self.view.annotations.get(RESERVED_GPU_ANNOTATION, "")

    def asked(self) -> str:
        """What it asks for, in words."""
        needs = self.needs
        times = f" × {needs.devices}" if needs.shares_gpu and needs.devices > 1 else ""
        if needs.fraction is not None:
            return f"{needs.fraction:g}{times}"
        if needs.gpu_memory is not None:
            return f"{needs.gpu_memory} MiB{times}"
        return count(needs.gpus, "GPU")

    def holder(self, share: float | None) -> Holder:
        """The pod as a holder of ``share`` of one GPU."""
        return Holder(
            namespace=self.namespace,
            name=self.name,
            tenant=self.tenant,
            queue=self.view.queue,
            asked=self.asked(),
            share=share,
            phase=self.phase,
            uid=self.view.uid,
            node=self.view.node,
            on_host=self.on_host,
        )

    def waiting(self) -> WaitingPod:
        """The pod as one that waits."""
        needs = self.needs
        total = None if needs.fraction is None and needs.gpu_memory is not None else needs.gpu_total
        return WaitingPod(
            namespace=self.namespace,
            name=self.name,
            tenant=self.tenant,
            queue=self.view.queue,
            asked=self.asked(),
            gpus=total,
            why=_why(self.view),
            uid=self.view.uid,
        )


@dataclass(frozen=True)
class GpuPods:
    """All pods that have to do with GPUs."""

    reservations: tuple[GpuPod, ...] = ()
    """Living ones, by name. Those of a tenant with a KAI of its own are the tenant's."""
    failed_reservations: tuple[GpuPod, ...] = ()
    """KAI leaves them lying; their GPU is free for the kubelet."""
    sharing: tuple[GpuPod, ...] = ()
    """Bound pods that share GPUs."""
    whole: tuple[GpuPod, ...] = ()
    """Bound pods with GPUs of their own."""
    waiting: tuple[GpuPod, ...] = ()
    """Pods without a node."""


def sort_pods(pods: Iterable[Obj]) -> GpuPods:
    """Sort Pod objects; those that have nothing to do with GPUs are left out, and so are those that have ended."""
    found: dict[str, list[GpuPod]] = {}
    for obj in pods:
        pod = gpu_pod(obj)
        found.setdefault(_kind(pod), []).append(pod)

    def of(kind: str) -> tuple[GpuPod, ...]:
        return tuple(sorted(found.get(kind, ()), key=lambda pod: pod.on_host))

    return GpuPods(of("reservation"), of("failed reservation"), of("sharing"), of("whole"), of("waiting"))


def gpu_pod(obj: Obj) -> GpuPod:
    """A Pod object of the host, named as its owner sees it."""
    view = PodView.of(obj)
    tenant = view.labels.get(MANAGED_BY_LABEL, "")
    return GpuPod(
        view=view,
        needs=PodRequests.of(obj),
        tenant=tenant,
        namespace=view.labels.get(VIRTUAL_NAMESPACE_LABEL, view.namespace) if tenant else view.namespace,
        name=view.annotations.get(VIRTUAL_NAME, view.name) if tenant else view.name,
        told=told_by_status(obj),
    )


def waiting_inside(tenant: str, pods: Iterable[Obj]) -> tuple[WaitingPod, ...]:
    """The pods that wait for GPUs inside a tenant with a scheduler of its own, as its own API has them.

    vCluster brings them to the host only once they have a node (0.36.1, pkg/controllers/resources/pods/syncer.go).
    """
    return tuple(replace(pod.waiting(), tenant=tenant) for pod in sort_pods(pods).waiting)


def _kind(pod: GpuPod) -> str:
    """What a pod is here; empty for one that has nothing to do with GPUs, or no longer."""
    if pod.namespace == RESERVATION_APP and pod.view.labels.get("app") == RESERVATION_APP:
        failed = pod.view.phase == "Failed"
        return "failed reservation" if failed else "" if pod.view.ended else "reservation"
    if pod.view.ended or not (pod.needs.gpus or pod.needs.shares_gpu):
        return ""
    # To every scheduler but KAI the annotations of a fraction mean nothing: such a pod has no GPU.
    by_kai = pod.view.scheduler_name != DEFAULT_SCHEDULER or bool(pod.view.gpu_groups)
    if not pod.needs.gpus and not by_kai:
        return ""
    if not pod.view.node:
        return "waiting"
    return "whole" if pod.needs.gpus else "sharing"


def _why(view: PodView) -> str:
    said = next((c for c in view.conditions if c.type == "PodScheduled" and c.status == "False"), None)
    if said is None:
        return ""
    return " ".join((said.message or said.reason).split())
