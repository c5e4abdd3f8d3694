"""Queues in a tree: quota first, the rest by priority and weight; limits always apply; inner queues take no pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lab.config import QueueResource, QueueSpec
from lab.kai.names import KAI_SCHEDULER
from lab.kube import Cluster
from lab.objects.kai import QueueView
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod, gpu_pod

from .checks import on_gpus, on_one_node
from .contention import DEPARTMENT, GPUS, contend, leaf
from .scheduling_decisions import NO_QUEUE, OVER_LIMIT, WAIT, bound, decided, refusal

pytestmark = pytest.mark.kai

NewQueues = Callable[..., dict[str, str]]


@pytest.mark.kai(">=0.13")  # queue trees of three levels
@on_gpus(GPUS)
def test_quota_comes_before_what_is_left_over(
    workloads: WorkloadNamespace, cluster: Cluster, new_queues: NewQueues
) -> None:
    """ML department → research team (alpha, beta) and engineering: by weight alone, engineering would get 3."""
    names = new_queues(
        DEPARTMENT,
        leaf("research", quota=2),
        leaf("alpha", parent="research", quota=1),
        leaf("beta", parent="research", quota=1),
        leaf("engineering", quota=1, weight=3),
    )
    got = contend(workloads, cluster, names, {"alpha": 1, "beta": 1, "engineering": 4})
    assert got == {"alpha": 1, "beta": 1, "engineering": 2}
    wanted = {names[queue]: gpus for queue, gpus in {**got, "research": 2, "department": GPUS}.items()}

    def add_up(queues: list[dict[str, Any]]) -> bool:
        allocated = {view.name: view.allocated.gpu for view in map(QueueView.of, queues)}
        return {name: allocated.get(name) for name in wanted} == wanted

    cluster.wait("Queue", add_up, timeout=WAIT, what="each queue reports its own GPUs and its children's")


@on_gpus(GPUS)
def test_what_is_left_over_goes_by_weight(
    workloads: WorkloadNamespace, cluster: Cluster, new_queues: NewQueues
) -> None:
    names = new_queues(DEPARTMENT, leaf("alpha", weight=3), leaf("beta"))
    assert contend(workloads, cluster, names, {"alpha": 3, "beta": 2}) == {"alpha": 3, "beta": 1}


@on_gpus(GPUS)
def test_queue_of_higher_priority_comes_first(
    workloads: WorkloadNamespace, cluster: Cluster, new_queues: NewQueues
) -> None:
    names = new_queues(DEPARTMENT, leaf("urgent", priority=200), leaf("usual"))
    assert contend(workloads, cluster, names, {"usual": 2, "urgent": 4}) == {"usual": 0, "urgent": 4}


@pytest.mark.places("host", "host-kai")
@on_one_node(2)
def test_limit_is_never_passed(workloads: WorkloadNamespace, new_queues: NewQueues) -> None:
    names = new_queues(QueueSpec(name="department"), leaf("capped", limit=1))
    workloads.submit(gpu_pod("within", queue=names["capped"]))
    workloads.on_host(bound, "within", timeout=WAIT, what="placed")
    workloads.submit(gpu_pod("beyond", queue=names["capped"]))
    (beyond,) = workloads.on_host(decided, "beyond", timeout=WAIT, what="placed or refused")
    assert not bound(beyond)
    assert f"{names['capped']} quota {OVER_LIMIT} of GPUs" in refusal(beyond)


def test_limit_of_a_queue_counts_for_its_children(workloads: WorkloadNamespace, new_queues: NewQueues) -> None:
    one_pod = QueueResource(limit=100)  # millicores, the request of one pod of cpu_pod
    names = new_queues(QueueSpec(name="department", cpu=one_pod), leaf("alpha"), leaf("beta"))
    workloads.submit(cpu_pod("first", queue=names["alpha"]))
    workloads.on_host(bound, "first", timeout=WAIT, what="placed")
    workloads.submit(cpu_pod("second", queue=names["beta"]))
    (second,) = workloads.on_host(decided, "second", timeout=WAIT, what="placed or refused")
    assert not bound(second)
    assert f"{names['department']} quota {OVER_LIMIT} of CPU" in refusal(second)


@pytest.mark.kai(">=0.13")
@pytest.mark.places("host", "host-kai")
def test_inner_queue_takes_no_pods(workloads: WorkloadNamespace, new_queues: NewQueues) -> None:
    names = new_queues(QueueSpec(name="department"), leaf("research"), leaf("alpha", parent="research"))
    workloads.submit(cpu_pod("stray", queue=names["research"]))
    (pod,) = workloads.on_host(decided, "stray", timeout=WAIT, what="placed or refused")
    assert not bound(pod)
    event = workloads.event(pod, "Unschedulable", "Scheduled", timeout=WAIT)
    assert (event.reason, event.reporter) == ("Unschedulable", KAI_SCHEDULER)


@pytest.mark.kai(">=0.13")  # before, pods of an unknown queue wait in silence
@pytest.mark.breaks("leaf-queues", reason="the parent is deleted")
def test_children_of_a_deleted_parent_run_nothing(
    workloads: WorkloadNamespace, cluster: Cluster, new_queues: NewQueues
) -> None:
    """KAI 0.16.8 allows deletion of a queue with children: its webhook is registered for CREATE and UPDATE alone."""
    names = new_queues(QueueSpec(name="department"), leaf("alpha"))
    cluster.delete("Queue", names["department"], wait=WAIT)
    workloads.submit(cpu_pod("orphan", queue=names["alpha"]))
    message = f"Queue '{names['alpha']}' {NO_QUEUE}"
    workloads.on_host(
        lambda pod: message in refusal(pod), "orphan", timeout=WAIT, what="refused: its queue has no root"
    )
