"""Reclaim: GPUs that a queue has borrowed return to the queue whose quota they belong to, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.config import QueueResource, QueueSpec
from lab.objects.views import NodeView
from lab.workloads.modifiers import brief
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import gpu_pod

from .checks import department, on_one_node
from .scheduling_decisions import WAIT, bound, decided, evictions, refused, surviving

pytestmark = pytest.mark.kai

NewQueues = Callable[..., dict[str, str]]


@pytest.mark.places("host", "host-kai")
@on_one_node(2)
def test_borrowed_gpus_go_back(workloads: WorkloadNamespace, new_queues: NewQueues, leased_node: NodeView) -> None:
    """The borrower has every GPU of the node, and a quota of all but one."""
    names = new_queues(
        department(leased_node),
        QueueSpec(name="borrower", parent="department", gpu=QueueResource(quota=leased_node.gpus - 1)),
        # Without a weight, it may reclaim no more than its quota.
        QueueSpec(name="owner", parent="department", gpu=QueueResource(quota=1, weight=0)),
    )
    borrowing = [f"loan-{number}" for number in range(leased_node.gpus)]
    workloads.submit(*(brief(gpu_pod(name, queue=names["borrower"])) for name in borrowing))
    loans = workloads.running(*borrowing, timeout=WAIT)
    workloads.submit(gpu_pod("owner", queue=names["owner"]))
    workloads.running("owner", timeout=WAIT)
    kept = surviving(workloads, loans)
    assert len(kept) == len(loans) - 1
    assert all(pod.ready for pod in kept)
    assert evictions(workloads, *loans) == ["reclaim"]


@on_one_node(2)
def test_gpus_within_quota_stay(workloads: WorkloadNamespace, new_queues: NewQueues, leased_node: NodeView) -> None:
    """Both queues have their quota, and one of them requests more."""
    names = new_queues(
        department(leased_node),
        QueueSpec(name="alpha", parent="department", gpu=QueueResource(quota=leased_node.gpus - 1)),
        QueueSpec(name="beta", parent="department", gpu=QueueResource(quota=1)),
    )
    taken = {f"alpha-{number}": names["alpha"] for number in range(leased_node.gpus - 1)} | {"beta": names["beta"]}
    workloads.submit(*(brief(gpu_pod(name, queue=queue)) for name, queue in taken.items()))
    satisfied = workloads.running(*taken, timeout=WAIT)
    workloads.submit(gpu_pod("more", queue=names["beta"]))
    (more,) = workloads.on_host(decided, "more", timeout=WAIT, what="placed or refused")
    assert refused(more)
    assert not bound(more)
    assert len(surviving(workloads, satisfied)) == leased_node.gpus
