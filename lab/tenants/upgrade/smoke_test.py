"""Pods that try a tenant's KAI out after a change: one without a GPU, one with a whole GPU, one with a fraction.

Each takes only what is free, so that nothing is evicted for it; what does not fit is left out, with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.errors import LabError
from lab.snapshot.node_info import FreeGpus, read_node_infos
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod, fraction_pod, gpu_pod

FRACTION = 0.1
"""Of a GPU; small, to fit beside others."""

_SECONDS = 120.0


@dataclass(frozen=True)
class SmokeTest:
    """How one of the pods fared.

    Attributes:
        name: cpu, gpu or fraction.
        seconds: from its creation until it was Ready; None: it was not.
        problem: why it was not.
        skipped: why it was not tried.
    """

    name: str
    seconds: float | None = None
    problem: str = ""
    skipped: str = ""


def try_out(
    place: WorkloadNamespace,
    queue: str,
    *,
    sharing: bool,
    timeout: float = _SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[SmokeTest, ...]:
    """Run the three pods one after the other, and take each away again.

    Args:
        place: in the tenant.
        queue: a leaf queue of it.
        sharing: whether that KAI gives fractions.
        timeout: seconds for each.
        clock: seconds.
    """
    pods = {
        "cpu": cpu_pod("trial-cpu", queue=queue),
        "gpu": gpu_pod("trial-gpu", queue=queue),
        "fraction": fraction_pod("trial-fraction", fraction=FRACTION, queue=queue),
    }
    free = FreeGpus.of(read_node_infos(place.cluster))
    without = dict(_too_much(free, sharing=sharing))
    return tuple(
        SmokeTest(name, skipped=without[name]) if name in without else _try(place, name, pod, timeout, clock)
        for name, pod in pods.items()
    )


def _too_much(free: FreeGpus, *, sharing: bool) -> Iterator[tuple[str, str]]:
    if not free.gpus:
        yield "gpu", "the tenant has no free GPU"
    if not sharing:
        yield "fraction", "gpuSharing is off"
    elif not free.gpus and free.share < FRACTION:
        yield "fraction", f"no GPU of the tenant has {FRACTION:g} free"


def _try(
    place: WorkloadNamespace, name: str, pod: Mapping[str, Any], timeout: float, clock: Callable[[], float]
) -> SmokeTest:
    start = clock()
    try:
        place.submit(dict(pod))
        place.inside(lambda view: view.ready, str(pod["metadata"]["name"]), timeout=timeout, what="Ready")
        ready = clock() - start
        place.remove(str(pod["metadata"]["name"]))
    except LabError as error:
        return SmokeTest(name, problem=error.what)
    return SmokeTest(name, ready)
