"""KAI's queues: as in the lab file, and with a reason when they take no workload."""

from __future__ import annotations

import pytest

from lab.config import QueueResource
from lab.kai.names import KAI_SCHEDULER
from lab.kube import Cluster
from lab.objects.kai import PodGroupView, QueueShare, QueueView
from lab.session.lab import Lab
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod

pytestmark = pytest.mark.kai

KAI_PRIORITY = 100
"""KAI's default for a queue without a priority (Queue CRD, spec.priority)."""


def share(resource: QueueResource) -> QueueShare:
    return QueueShare(resource.quota, resource.limit, resource.weight)


def test_queues_are_as_in_the_lab_file(lab: Lab, cluster: Cluster) -> None:
    if not lab.spec.queues:
        pytest.skip("the lab file has no queues")
    queues = {view.name: view for view in map(QueueView.of, cluster.list("Queue"))}
    for wanted in lab.spec.queues:
        queue = queues[wanted.name]
        assert queue.parent == (wanted.parent or "")
        assert queue.priority == (KAI_PRIORITY if wanted.priority is None else wanted.priority)
        assert (queue.gpu, queue.cpu, queue.memory) == (share(wanted.gpu), share(wanted.cpu), share(wanted.memory))


def test_parents_know_their_children(lab: Lab, cluster: Cluster) -> None:
    wanted = {(queue.parent, queue.name) for queue in lab.spec.queues if queue.parent}
    if not wanted:
        pytest.skip("no queue of the lab file has a parent")
    cluster.wait(
        "Queue",
        lambda queues: wanted <= {(view.name, child) for view in map(QueueView.of, queues) for child in view.children},
        timeout=30,
        what="status.childQueues names all children",
    )


@pytest.mark.kai(">=0.13")
def test_parent_queue_takes_no_workload_and_says_so(lab: Lab, workloads: WorkloadNamespace) -> None:
    parents = [queue.parent for queue in lab.spec.queues if queue.parent]
    if not parents:
        pytest.skip("no queue of the lab file has a parent")
    workloads.submit(cpu_pod("stray", queue=parents[0]))
    (pod,) = workloads.on_host(lambda pod: True, "stray", what="there")
    event = workloads.event(pod, "Unschedulable", "Scheduled")
    assert (event.reason, event.reporter) == ("Unschedulable", KAI_SCHEDULER)
    (pod,) = workloads.host_pods()
    assert pod.node == ""


@pytest.mark.kai(">=0.13")
def test_unknown_queue_is_named(workloads: WorkloadNamespace, cluster: Cluster) -> None:
    workloads.submit(cpu_pod("lost", queue="no-such-queue"))
    (obj,) = cluster.wait(
        "PodGroup",
        lambda groups: any(PodGroupView.of(group).refusals for group in groups),
        namespace=workloads.namespace,
        timeout=60,
        what="KAI says why it does not place the pod",
    )
    group = PodGroupView.of(obj)
    assert group.queue == "no-such-queue"
    assert {refusal.reason for refusal in group.refusals} == {"QueueDoesNotExist"}
    assert "no-such-queue" in group.refusals[0].message
