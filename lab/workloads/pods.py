"""Pods of suites and demos: manifests with name, namespace, queue and GPU share."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from lab.errors import LabError
from lab.kai.names import (
    DEVICES_ANNOTATION,
    FRACTION_ANNOTATION,
    GPU_RESOURCE,
    KAI_SCHEDULER,
    MEMORY_ANNOTATION,
    QUEUE_LABEL,
)
from lab.paths import assets

IMAGE = "registry.kailab.dev/probe:2"
"""Image of all workload pods: kind/probe and a shell. The lab's nodes contain it; no registry has it."""


Pod = dict[str, Any]


def cpu_pod(
    name: str = "cpu-pod", *, namespace: str = "", queue: str | None = "test", scheduler: str | None = KAI_SCHEDULER
) -> Pod:
    """A pod without a GPU (100 millicores, 250 MB).

    An empty ``namespace`` is not set. ``queue`` None omits the label (KAI 0.10 and newer use ``default-queue`` then).
    ``scheduler`` None means the cluster's default scheduler, and omits the queue.
    """
    return _pod("cpu", name, namespace, queue, scheduler)


def gpu_pod(
    name: str = "gpu-pod",
    *,
    gpus: int = 1,
    namespace: str = "",
    queue: str | None = "test",
    scheduler: str | None = KAI_SCHEDULER,
) -> Pod:
    """A pod with whole GPUs, otherwise like ``cpu_pod``. Raises LabError if ``gpus`` is below 1."""
    if gpus < 1:
        raise LabError(f"pod {name} requests {gpus} GPUs", fix="request at least 1 or use cpu_pod")
    pod = _pod("gpu", name, namespace, queue, scheduler)
    resources = pod["spec"]["containers"][0]["resources"]
    for side in ("requests", "limits"):
        resources[side][GPU_RESOURCE] = gpus
    return pod


def fraction_pod(
    name: str = "fraction-pod",
    *,
    fraction: float = 0.5,
    devices: int = 1,
    namespace: str = "",
    queue: str | None = "test",
) -> Pod:
    """A pod with a fraction of each of ``devices`` GPUs, scheduled by KAI, otherwise like ``cpu_pod``.

    Raises LabError unless the fraction is above 0 and below 1 (as KAI's webhook requires) and ``devices`` at least 1.
    """
    share = gpu_share(f"pod {name}", fraction)
    if devices < 1:
        raise LabError(f"pod {name} requests a fraction of {devices} GPUs", fix="request at least 1 device")
    pod = _pod("fraction", name, namespace, queue, KAI_SCHEDULER)
    pod["metadata"]["annotations"][FRACTION_ANNOTATION] = share
    if devices > 1:
        pod["metadata"]["annotations"][DEVICES_ANNOTATION] = str(devices)
    return pod


def gpu_memory_pod(
    name: str = "gpu-memory-pod", *, mib: int = 2000, namespace: str = "", queue: str | None = "test"
) -> Pod:
    """A pod with ``mib`` MiB of a GPU's memory, scheduled by KAI. Raises LabError if ``mib`` is below 1."""
    if mib <= 0:
        raise LabError(f"pod {name} requests {mib} MiB of GPU memory", fix="request at least 1 MiB")
    pod = _pod("gpu-memory", name, namespace, queue, KAI_SCHEDULER)
    pod["metadata"]["annotations"][MEMORY_ANNOTATION] = str(mib)
    return pod


def gpu_share(what: str, fraction: float) -> str:
    """A fraction as a decimal, since KAI 0.17 refuses other notations. Raises LabError unless above 0 and below 1."""
    if not 0 < fraction < 1:
        raise LabError(
            f"{what} requests {fraction:g} of a GPU",
            fix="use a fraction above 0 and below 1, or gpu_pod for whole GPUs",
        )
    return f"{Decimal(str(fraction)):f}"


def manifest(name: str) -> dict[str, Any]:
    """An object of manifests/workloads."""
    import yaml

    return dict(yaml.safe_load((assets("manifests") / "workloads" / f"{name}.yaml").read_text()))


def _pod(kind: str, name: str, namespace: str, queue: str | None, scheduler: str | None) -> Pod:
    pod = manifest(kind)
    meta, spec = pod["metadata"], pod["spec"]
    meta["name"] = name
    if namespace:
        meta["namespace"] = namespace
    if scheduler is None:
        del spec["schedulerName"]
        queue = None
    else:
        spec["schedulerName"] = scheduler
    if queue is None:
        del meta["labels"][QUEUE_LABEL]
    else:
        meta["labels"][QUEUE_LABEL] = queue
    return pod
