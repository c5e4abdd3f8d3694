"""Pods that must run after an upgrade of a tenant's KAI: without a GPU, with a whole GPU, and with a fraction.

Each uses free resources only, so nothing is evicted; a pod that does not fit is skipped, with the reason. A rehearsal
that skipped one because the GPUs are busy or have failed is not proven.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lab.config import LabSpec
from lab.errors import LabError
from lab.snapshot.node_info import FreeGpus, read_node_infos
from lab.text import count
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod, fraction_pod, gpu_pod

FRACTION = 0.1
"""Of a GPU; small, to fit beside others."""

SLUG = "trial"
PREFIX = f"t-{SLUG}-"
"""Of the names of the namespaces with these pods."""

_SECONDS = 120.0


@dataclass(frozen=True)
class SmokeTest:
    """Result of one pod: cpu, gpu or fraction."""

    name: str
    seconds: float | None = None
    """From its creation until it was Ready; None: it was not."""
    problem: str = ""
    skipped: str = ""
    """Why it was not run."""
    unproven: bool = False
    """It was skipped although the tenant has what it needs, so that nothing is known about such pods."""


def smoke_test_queue(inner: LabSpec) -> str:
    """A leaf queue for the pods: the first that allows GPUs."""
    leaves = [queue for queue in inner.queues if queue.name in inner.leaf_queues]
    return next((queue.name for queue in leaves if queue.gpu.limit), leaves[0].name)


def run_smoke_tests(place: WorkloadNamespace, queue: str, *, sharing: bool) -> tuple[SmokeTest, ...]:
    """Run the three pods one after the other in a leaf queue, and delete each.

    ``sharing`` is whether that KAI schedules fractions.
    """
    pods = {
        "cpu": cpu_pod("trial-cpu", queue=queue),
        "gpu": gpu_pod("trial-gpu", queue=queue),
        "fraction": fraction_pod("trial-fraction", fraction=FRACTION, queue=queue),
    }
    infos = read_node_infos(place.cluster)
    # Unhealthy GPUs are in a node's capacity, but not allocatable.
    free, total = FreeGpus.of(infos), sum(info.capacity_gpus for info in infos)
    skipped = {skip.name: skip for skip in _skipped(free, total, sharing=sharing)}
    return tuple(skipped.get(name) or _run(place, name, pod) for name, pod in pods.items())


def _skipped(free: FreeGpus, total: int, *, sharing: bool) -> Iterator[SmokeTest]:
    if not free.gpus:
        why = f"the tenant has {count(total, 'GPU')}, none of them free" if total else "the tenant has no GPUs"
        yield SmokeTest("gpu", skipped=why, unproven=bool(total))
    if not sharing:
        yield SmokeTest("fraction", skipped="gpuSharing is off")
    elif not free.gpus and free.share < FRACTION:
        why = f"no GPU of the tenant has {FRACTION:g} free" if total else "the tenant has no GPUs"
        yield SmokeTest("fraction", skipped=why, unproven=bool(total))


def _run(place: WorkloadNamespace, name: str, pod: dict[str, Any]) -> SmokeTest:
    start, pod_name = time.monotonic(), str(pod["metadata"]["name"])
    try:
        place.submit(pod)
        place.inside(lambda view: view.ready, pod_name, timeout=_SECONDS, what="Ready")
        ready = time.monotonic() - start
        place.remove(pod_name)
    except LabError as error:
        return SmokeTest(name, problem=error.what)
    return SmokeTest(name, ready)
