"""KAI beside the default scheduler on the same nodes: what each knows of the GPUs that the other gave away.

Both count what pods request of nvidia.com/gpu on a node. KAI counts the pods of all schedulers. The default scheduler
sees KAI's fractions as the whole GPUs of the reservation pods behind them. Neither asks the other before it binds: of
two pods that both bind to the last GPU, the kubelet takes one and fails the other.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.config import QueueResource, QueueSpec
from lab.kube import Cluster
from lab.objects.kai import QueueView
from lab.objects.views import NodeView, PodView
from lab.workloads.modifiers import bound_to
from lab.workloads.namespace import Inside, WorkloadNamespace
from lab.workloads.pods import fraction_pod, gpu_pod

from .checks import gpu_group, needs_whole_node, on_one_node, reservations
from .scheduling_decisions import WAIT, bound, decided, refusal, refused, surviving

pytestmark = pytest.mark.kai

NewQueues = Callable[..., dict[str, str]]


@on_one_node(2)
def test_kai_goes_round_the_gpus_of_the_default_scheduler(
    workloads: WorkloadNamespace,
    new_queues: NewQueues,
    cluster: Cluster,
    leased_node: NodeView,
    probe: Callable[[PodView], Inside],
) -> None:
    """The queue may have all GPUs of the node, and KAI still neither uses, evicts nor counts what others have."""
    needs_whole_node(leased_node)
    queue = new_queues(
        QueueSpec(name="department"),
        QueueSpec(name="team", parent="department", gpu=QueueResource(quota=leased_node.gpus)),
    )["team"]
    workloads.submit(gpu_pod("other", gpus=leased_node.gpus - 1, scheduler=None))
    (other,) = workloads.running("other", timeout=WAIT)
    workloads.submit(gpu_pod("mine", queue=queue))
    (mine,) = workloads.running("mine", timeout=WAIT)
    assert not set(probe(mine).visible) & set(probe(other).visible)
    workloads.submit(gpu_pod("more", queue=queue))
    (more,) = workloads.on_host(decided, "more", timeout=WAIT, what="placed or refused")
    assert refused(more)
    assert len(surviving(workloads, [other, mine])) == 2
    cluster.wait(
        "Queue",
        lambda queues: [QueueView.of(obj).allocated.gpu for obj in queues] == [1],
        fields=f"metadata.name={queue}",
        timeout=WAIT,
        what="the queue counts KAI's GPU only",
    )


@on_one_node(2)
def test_default_scheduler_takes_a_shared_gpu_for_a_whole_one(
    workloads: WorkloadNamespace,
    queue: str,
    cluster: Cluster,
    leased_node: NodeView,
    probe: Callable[[PodView], Inside],
) -> None:
    needs_whole_node(leased_node)
    workloads.submit(fraction_pod("half", fraction=0.5, queue=queue))
    (half,) = workloads.running("half", timeout=WAIT)
    workloads.submit(gpu_pod("all", gpus=leased_node.gpus, scheduler=None))
    (every,) = workloads.on_host(decided, "all", timeout=WAIT, what="placed or refused")
    assert "Insufficient nvidia.com/gpu" in refusal(every)
    workloads.submit(gpu_pod("others", gpus=leased_node.gpus - 1, scheduler=None))
    (others,) = workloads.running("others", timeout=WAIT)
    (held,) = reservations(cluster, gpu_group(half))
    assert held.reserved_gpu not in probe(others).visible


@on_one_node()
@pytest.mark.breaks("whole-gpus", reason="a pod is bound over KAI")
def test_pod_bound_over_kai_is_failed_by_the_kubelet(
    workloads: WorkloadNamespace, queue: str, leased_node: NodeView
) -> None:
    """As it ends when another scheduler binds to GPUs that KAI has just given away."""
    needs_whole_node(leased_node)
    workloads.submit(gpu_pod("mine", gpus=leased_node.gpus, queue=queue))
    (mine,) = workloads.running("mine", timeout=WAIT)
    workloads.submit(bound_to(gpu_pod("over", scheduler=None), mine.node))
    (over,) = workloads.on_host(
        lambda pod: pod.phase in ("Failed", "Running"), "over", timeout=WAIT, what="taken or failed"
    )
    assert over.phase == "Failed"
    assert over.reason in ("UnexpectedAdmissionError", "OutOfnvidia.com/gpu")
    (still,) = surviving(workloads, [mine])
    assert still.ready
    workloads.remove("mine", timeout=WAIT)
    workloads.submit(gpu_pod("next", gpus=leased_node.gpus, queue=queue))  # the failed pod holds nothing
    workloads.on_host(bound, "next", timeout=WAIT, what="placed")
