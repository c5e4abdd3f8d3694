"""Pods on the GPU map: on a GPU, or waiting for one."""

from __future__ import annotations

from collections.abc import Iterable

from lab.gpu.map.model import Holder, WaitingPod
from lab.objects.fields import Obj
from lab.objects.views import PodView
from lab.snapshot.pod_info import GpuRole, PodInfo
from lab.text import count


def asked(pod: PodInfo) -> str:
    """Describe the GPUs that a pod requests: ``1 GPU``, ``0.5 × 2``, ``4096 MiB``."""
    requests = pod.requests
    times = f" × {requests.devices}" if requests.shares_gpu and requests.devices > 1 else ""
    if requests.fraction is not None:
        return f"{requests.fraction:g}{times}"
    if requests.gpu_memory is not None:
        return f"{requests.gpu_memory} MiB{times}"
    return count(requests.gpus, "GPU")


def holder(pod: PodInfo, share: float | None) -> Holder:
    """Return a pod as a holder of ``share`` of one GPU."""
    view = pod.view
    return Holder(*_identity(pod), share=share, phase=_phase(view), uid=view.uid, node=view.node, on_host=pod.key)


def waiting(pod: PodInfo, tenant: str = "") -> WaitingPod:
    """Return a pod as a waiting one; ``tenant`` is set for a pod that was read from a tenant's API."""
    requests = pod.requests
    unschedulable = next((c for c in pod.view.conditions if c.type == "PodScheduled" and c.status == "False"), None)
    why = (unschedulable.message or unschedulable.reason) if unschedulable else ""
    gpus = None if requests.fraction is None and requests.gpu_memory is not None else requests.gpu_total
    return WaitingPod(*_identity(pod, tenant), gpus=gpus, why=" ".join(why.split()), uid=pod.view.uid)


def waiting_inside(tenant: str, pods: Iterable[Obj]) -> tuple[WaitingPod, ...]:
    """Return the pods that wait for GPUs inside a tenant with its own scheduler, from the tenant's API.

    vCluster copies them to the host only once they have a node (0.36.1, pkg/controllers/resources/pods/syncer.go).
    """
    found = [pod for pod in map(PodInfo.of, pods) if pod.gpu_role is GpuRole.WAITING]
    return tuple(waiting(pod, tenant) for pod in sorted(found, key=lambda pod: pod.key))


def _identity(pod: PodInfo, tenant: str = "") -> tuple[str, str, str, str, str]:
    """The fields of ``MapPod``."""
    return pod.synced.namespace, pod.synced.name, tenant or pod.tenant, pod.view.queue, asked(pod)


def _phase(view: PodView) -> str:
    """The pod's phase, or that it is being deleted, or why its container does not start."""
    if view.deleting:
        return "Deleting"
    if view.phase == "Pending" and view.waiting_reasons:
        return view.waiting_reasons[0]
    return "Starting" if view.phase == "Pending" else view.phase
