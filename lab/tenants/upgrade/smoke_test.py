"""Pods that try a tenant's KAI out after a change: one without a GPU, one with a whole GPU, one with a fraction.

Each takes only what is free, so that nothing is evicted for it; what does not fit is left out, with the reason.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.errors import LabError
from lab.objects.kai import is_reservation
from lab.objects.views import NodeView, PodView
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


@dataclass(frozen=True)
class FreeGpus:
    """What is free in a tenant: whole GPUs, and the largest free share of one that is shared already."""

    gpus: int
    share: float

    @classmethod
    def of(cls, nodes: list[dict[str, Any]], pods: list[dict[str, Any]]) -> FreeGpus:
        """The room by API objects; pods that have ended take none."""
        views = [(PodView.of(obj), is_reservation(obj)) for obj in pods]
        living = [(view, reserves) for view, reserves in views if view.node and not view.ended]
        taken = Counter[str]()
        shares: defaultdict[str, float] = defaultdict(float)
        for view, _ in living:
            taken[view.node] += view.gpu_limit  # reservation pods ask for the GPU that they hold
        for view, reserves in living:
            for group in view.gpu_groups:
                # a share that is asked for in MiB is not known here: such a GPU counts as full
                shares[group] += 0.0 if reserves else 1.0 if view.gpu_fraction is None else view.gpu_fraction
        usable = [NodeView.of(obj) for obj in nodes]
        free = sum(max(0, node.gpus - taken[node.name]) for node in usable if node.ready and not node.unschedulable)
        return cls(free, max((1.0 - share for share in shares.values()), default=0.0))


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
    room = FreeGpus.of(place.cluster.list("Node"), place.cluster.list("Pod"))
    without = dict(_too_much(room, sharing=sharing))
    return tuple(
        SmokeTest(name, skipped=without[name]) if name in without else _try(place, name, pod, timeout, clock)
        for name, pod in pods.items()
    )


def _too_much(room: FreeGpus, *, sharing: bool) -> Iterator[tuple[str, str]]:
    if not room.gpus:
        yield "gpu", "the tenant has no free GPU"
    if not sharing:
        yield "fraction", "gpuSharing is off"
    elif not room.gpus and room.share < FRACTION:
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
