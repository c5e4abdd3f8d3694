"""Reclaim: GPUs that a queue has borrowed go back to the queue whose quota they are, and no others do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.kube.views import NodeView
from lab.parts.place import Place
from lab.parts.workloads import gpu_pod
from lab.parts.workloads_traits import brief
from lab.spec import QueueResource, QueueSpec

from .checks import on_gpus, two_nodes_of_two
from .verdicts import WAIT, bound, decided, evictions, refused, staying

pytestmark = pytest.mark.kai

NewQueues = Callable[..., dict[str, str]]
DEPARTMENT = QueueSpec(name="department")


@pytest.mark.places("host", "host-kai")
@on_gpus(4)
def test_borrowed_gpus_go_back(place: Place, new_queues: NewQueues, gpu_nodes: tuple[NodeView, ...]) -> None:
    two_nodes_of_two(gpu_nodes)
    names = new_queues(
        DEPARTMENT,
        QueueSpec(name="borrower", parent="department", gpu=QueueResource(quota=2)),
        # Without a weight, its quota is all that it may ask back.
        QueueSpec(name="owner", parent="department", gpu=QueueResource(quota=2, weight=0)),
    )
    place.submit(*(brief(gpu_pod(name, gpus=2, queue=names["borrower"])) for name in ("own", "borrowed")))
    loans = place.running("own", "borrowed", timeout=WAIT)
    place.submit(gpu_pod("owner", gpus=2, queue=names["owner"]))
    place.running("owner", timeout=WAIT)
    (kept,) = staying(place, loans)
    assert kept.ready
    assert evictions(place, *loans) == ["reclaim"]


@on_gpus(4)
def test_gpus_within_quota_stay(place: Place, new_queues: NewQueues, gpu_nodes: tuple[NodeView, ...]) -> None:
    two_nodes_of_two(gpu_nodes)
    half = QueueResource(quota=2)
    names = new_queues(
        DEPARTMENT,
        QueueSpec(name="alpha", parent="department", gpu=half),
        QueueSpec(name="beta", parent="department", gpu=half),
    )
    place.submit(*(gpu_pod(name, gpus=2, queue=names[name]) for name in ("alpha", "beta")))
    satisfied = place.running("alpha", "beta", timeout=WAIT)
    place.submit(gpu_pod("more", gpus=2, queue=names["beta"]))
    (more,) = place.on_host(decided, "more", timeout=WAIT, what="placed or refused")
    assert refused(more)
    assert not bound(more)
    assert len(staying(place, satisfied)) == 2
