"""Pods that must run after an upgrade of a tenant's KAI: without a GPU, with a whole GPU, and with a fraction.

Each uses free resources only, so nothing is evicted; a pod that does not fit is skipped, with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lab.config import LabSpec
from lab.errors import LabError
from lab.snapshot.node_info import FreeGpus, read_node_infos
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod, fraction_pod, gpu_pod

FRACTION = 0.1
"""Of a GPU; small, to fit beside others."""

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
    skipped = dict(_skipped(FreeGpus.of(read_node_infos(place.cluster)), sharing=sharing))
    return tuple(
        SmokeTest(name, skipped=skipped[name]) if name in skipped else _run(place, name, pod)
        for name, pod in pods.items()
    )


def _skipped(free: FreeGpus, *, sharing: bool) -> Iterator[tuple[str, str]]:
    if not free.gpus:
        yield "gpu", "the tenant has no free GPU"
    if not sharing:
        yield "fraction", "gpuSharing is off"
    elif not free.gpus and free.share < FRACTION:
        yield "fraction", f"no GPU of the tenant has {FRACTION:g} free"


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
