"""``kailab explain eviction`` and ``kailab explain queue`` beside what KAI's scheduler did and computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.config import QueueResource, QueueSpec
from lab.explain import explain_evictions
from lab.explain.owners import Ref
from lab.explain.queue_explanation import QueueTree, explain_queues
from lab.objects.views import NodeView
from lab.snapshot.cluster_snapshot import take
from lab.workloads.modifiers import brief
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import gpu_pod

from .checks import department, on_one_node
from .scheduling_decisions import WAIT, evictions, surviving

pytestmark = pytest.mark.kai("==0.16.8")

NewQueues = Callable[..., dict[str, str]]


@on_one_node(2)
def test_a_reclaim_and_its_queues_are_explained(
    workloads: WorkloadNamespace, new_queues: NewQueues, leased_node: NodeView
) -> None:
    """The borrower loses one pod, whose eviction KAI's rules required; KAI's fair shares are the computed ones."""
    names = new_queues(
        department(leased_node),
        QueueSpec(name="borrower", parent="department", gpu=QueueResource(quota=leased_node.gpus - 1)),
        QueueSpec(name="owner", parent="department", gpu=QueueResource(quota=1, weight=0)),
    )
    pods = [f"loan-{number}" for number in range(leased_node.gpus)]
    workloads.submit(*(brief(gpu_pod(name, queue=names["borrower"])) for name in pods))
    loans = workloads.running(*pods, timeout=WAIT)

    def read() -> QueueTree:
        return explain_queues(take(workloads.host, scheduler=True), names["borrower"])

    def agrees(tree: QueueTree) -> bool:
        gpu = tree.explained[0].resources["gpu"]
        return gpu.kai_fair == gpu.fair == gpu.status_allocated

    borrower = workloads.host.poll(read, until=agrees, timeout=WAIT).explained[0]
    assert borrower.resources["gpu"].fair == leased_node.gpus
    assert borrower.resources["gpu"].borrowed == 1
    assert borrower.borrows_from[names["owner"]] == 1

    workloads.submit(gpu_pod("owner", queue=names["owner"]))
    workloads.running("owner", timeout=WAIT)
    assert evictions(workloads, *loans) == ["reclaim"]
    kept = {pod.name for pod in surviving(workloads, loans)}
    (lost,) = (pod for pod in loans if pod.name not in kept)
    found = explain_evictions(take(workloads.host, scheduler=True), Ref("Pod", lost.namespace, lost.name))
    assert found.required == ("yes",)
    assert found.metrics
    assert [finding.rule for finding in found.findings] == ["eviction.reclaim"]
    assert list(found.counted.values()) == [1]
