"""Preemption: within a queue, a workload of higher priority takes the GPUs of one of lower priority."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.config import QueueSpec
from lab.objects.views import NodeView
from lab.workloads.modifiers import brief, of_priority
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import gpu_pod

from .checks import department, on_one_node
from .scheduling_decisions import WAIT, bound, decided, evictions, refused, surviving

pytestmark = pytest.mark.kai

TEAM = QueueSpec(name="team", parent="department")
NewQueues = Callable[..., dict[str, str]]


@pytest.mark.places("host", "host-kai")
@on_one_node()
def test_higher_priority_takes_the_place_of_a_lower_one(
    workloads: WorkloadNamespace, new_queues: NewQueues, leased_node: NodeView
) -> None:
    queue = new_queues(department(leased_node), TEAM)["team"]

    def pod(name: str, priority: str) -> dict[str, object]:
        return of_priority(brief(gpu_pod(name, queue=queue)), priority)

    names = [f"low-{number}" for number in range(leased_node.gpus)]
    workloads.submit(*(pod(name, "train") for name in names))
    low = workloads.running(*names, timeout=WAIT)
    workloads.submit(pod("equal", "train"))
    workloads.on_host(decided, "equal", timeout=WAIT, what="placed or refused")
    assert len(surviving(workloads, low)) == leased_node.gpus
    workloads.submit(pod("urgent", "build-preemptible"))
    workloads.running("urgent", timeout=WAIT)
    kept = surviving(workloads, low)
    assert len(kept) == leased_node.gpus - 1
    assert all(pod.ready for pod in kept)
    assert evictions(workloads, *low) == ["preempt"]
    (equal,) = workloads.on_host(decided, "equal", timeout=WAIT, what="placed or refused")
    assert not bound(equal)


@pytest.mark.quota
@on_one_node()
def test_non_preemptible_work_is_not_preempted(
    workloads: WorkloadNamespace, new_queues: NewQueues, leased_node: NodeView
) -> None:
    """Priority 100 and above is not preemptible, even by a workload of priority 125."""
    queue = new_queues(department(leased_node), TEAM)["team"]
    names = [f"build-{number}" for number in range(leased_node.gpus)]
    workloads.submit(*(of_priority(gpu_pod(name, queue=queue), "build") for name in names))
    building = workloads.running(*names, timeout=WAIT)
    workloads.submit(of_priority(gpu_pod("inference", queue=queue), "inference"))
    (inference,) = workloads.on_host(decided, "inference", timeout=WAIT, what="placed or refused")
    assert refused(inference)
    assert len(surviving(workloads, building)) == leased_node.gpus
