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
from lab.objects.views import NodeView, PodView, QueueView
from lab.workloads.modifiers import bound_to
from lab.workloads.namespace import Inside, WorkloadNamespace
from lab.workloads.pods import fraction_pod, gpu_pod

from .checks import gpu_group, needs_two_gpus, on_one_node, reservations
from .scheduling_decisions import WAIT, bound, decided, refusal, refused, staying

pytestmark = pytest.mark.kai

NewQueues = Callable[..., dict[str, str]]


@on_one_node()
def test_kai_goes_round_the_gpus_of_the_default_scheduler(
    place: WorkloadNamespace,
    new_queues: NewQueues,
    cluster: Cluster,
    home: NodeView,
    probe: Callable[[PodView], Inside],
) -> None:
    """The queue may have all GPUs of the node, and KAI still neither uses, evicts nor counts what others have."""
    needs_two_gpus(home)
    queue = new_queues(
        QueueSpec(name="department"), QueueSpec(name="team", parent="department", gpu=QueueResource(quota=home.gpus))
    )["team"]
    place.submit(gpu_pod("other", gpus=home.gpus - 1, scheduler=None))
    (other,) = place.running("other", timeout=WAIT)
    place.submit(gpu_pod("mine", queue=queue))
    (mine,) = place.running("mine", timeout=WAIT)
    assert not set(probe(mine).visible) & set(probe(other).visible)
    place.submit(gpu_pod("more", queue=queue))
    (more,) = place.on_host(decided, "more", timeout=WAIT, what="placed or refused")
    assert refused(more)
    assert len(staying(place, [other, mine])) == 2
    cluster.wait(
        "Queue",
        lambda queues: [QueueView.of(obj).gpus_allocated for obj in queues] == [1],
        fields=f"metadata.name={queue}",
        timeout=WAIT,
        what="the queue counts KAI's GPU only",
    )


@on_one_node()
def test_default_scheduler_takes_a_shared_gpu_for_a_whole_one(
    place: WorkloadNamespace, queue: str, cluster: Cluster, home: NodeView, probe: Callable[[PodView], Inside]
) -> None:
    needs_two_gpus(home)
    place.submit(fraction_pod("half", fraction=0.5, queue=queue))
    (half,) = place.running("half", timeout=WAIT)
    place.submit(gpu_pod("all", gpus=home.gpus, scheduler=None))
    (every,) = place.on_host(decided, "all", timeout=WAIT, what="placed or refused")
    assert "Insufficient nvidia.com/gpu" in refusal(every)
    place.submit(gpu_pod("others", gpus=home.gpus - 1, scheduler=None))
    (others,) = place.running("others", timeout=WAIT)
    (held,) = reservations(cluster, gpu_group(half))
    assert held.reserved_gpu not in probe(others).visible


@on_one_node()
@pytest.mark.breaks("whole-gpus", reason="a pod is bound over KAI")
def test_pod_bound_over_kai_is_failed_by_the_kubelet(place: WorkloadNamespace, queue: str, home: NodeView) -> None:
    """As it ends when another scheduler binds to GPUs that KAI has just given away."""
    place.submit(gpu_pod("mine", gpus=home.gpus, queue=queue))
    (mine,) = place.running("mine", timeout=WAIT)
    place.submit(bound_to(gpu_pod("over", scheduler=None), mine.node))
    (over,) = place.on_host(
        lambda pod: pod.phase in ("Failed", "Running"), "over", timeout=WAIT, what="taken or failed"
    )
    assert over.phase == "Failed"
    assert over.reason in ("UnexpectedAdmissionError", "OutOfnvidia.com/gpu")
    (still,) = staying(place, [mine])
    assert still.ready
    place.remove("mine", timeout=WAIT)
    place.submit(gpu_pod("next", gpus=home.gpus, queue=queue))  # the failed pod holds nothing
    place.on_host(bound, "next", timeout=WAIT, what="placed")
