"""The pods that suites and demos run: real manifests, with name, namespace, queue and share set."""

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
"""Image of all workload pods: kind/probe and a shell. The lab puts it into its nodes; no registry has it."""


Pod = dict[str, Any]


def cpu_pod(
    name: str = "cpu-pod", *, namespace: str = "", queue: str | None = "test", scheduler: str | None = KAI_SCHEDULER
) -> Pod:
    """A pod without a GPU (100 millicores, 250 MB).

    Args:
        name: its name.
        namespace: its namespace; not set when empty.
        queue: KAI queue; None leaves the label out (KAI 0.10 and later then take ``default-queue``).
        scheduler: schedulerName; None is the cluster's default scheduler, and drops the queue as well.
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
    """A pod with whole GPUs. Other arguments as for ``cpu_pod``.

    Raises:
        LabError: ``gpus`` is less than 1.
    """
    if gpus < 1:
        raise LabError(f"pod {name}: {gpus} GPUs are none", fix="use cpu_pod for a pod without a GPU")
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
    """A pod with a fraction of a GPU, scheduled by KAI.

    Args:
        name: its name.
        fraction: share of one GPU, above 0 and below 1 (KAI's webhook refuses anything else).
        devices: that share of so many GPUs.
        namespace: its namespace; not set when empty.
        queue: KAI queue; None leaves the label out.

    Raises:
        LabError: the fraction or the number of devices is out of range.
    """
    if not 0 < fraction < 1:
        raise LabError(
            f"pod {name}: {fraction:g} is no fraction of a GPU",
            fix="choose a value above 0 and below 1; use gpu_pod for whole GPUs",
        )
    if devices < 1:
        raise LabError(f"pod {name}: a fraction of {devices} GPUs", fix="give at least 1 device")
    pod = _pod("fraction", name, namespace, queue, KAI_SCHEDULER)
    # As a decimal: KAI 0.17 refuses fractions that are written in any other way.
    pod["metadata"]["annotations"][FRACTION_ANNOTATION] = f"{Decimal(str(fraction)):f}"
    if devices > 1:
        pod["metadata"]["annotations"][DEVICES_ANNOTATION] = str(devices)
    return pod


def gpu_memory_pod(
    name: str = "gpu-memory-pod", *, mib: int = 2000, namespace: str = "", queue: str | None = "test"
) -> Pod:
    """A pod with ``mib`` MiB of a GPU's memory, scheduled by KAI. Other arguments as for ``fraction_pod``.

    Raises:
        LabError: ``mib`` is not above 0.
    """
    if mib <= 0:
        raise LabError(f"pod {name}: {mib} MiB of GPU memory", fix="ask for at least 1 MiB")
    pod = _pod("gpu-memory", name, namespace, queue, KAI_SCHEDULER)
    pod["metadata"]["annotations"][MEMORY_ANNOTATION] = str(mib)
    return pod


def _pod(manifest: str, name: str, namespace: str, queue: str | None, scheduler: str | None) -> Pod:
    import yaml

    pod: Pod = yaml.safe_load((assets("manifests") / "workloads" / f"{manifest}.yaml").read_text())
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
