"""KAI beside the default scheduler on the same nodes: what each knows of the GPUs that the other gave away.

Both count what pods request of nvidia.com/gpu on a node. KAI counts the pods of all schedulers. The default scheduler
sees KAI's fractions as the whole GPUs of the reservation pods behind them. Neither asks the other before it binds: of
two pods that both bind to the last GPU, the kubelet takes one and fails the other.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.kube import Cluster
from lab.kube.views import NodeView, PodView, QueueView
from lab.parts.place import Inside, Place
from lab.parts.workloads import fraction_pod, gpu_pod
from lab.parts.workloads_traits import bound_to
from lab.spec import QueueResource, QueueSpec

from .checks import gpu_group, on_gpus, reservations, two_nodes_of_two
from .verdicts import WAIT, bound, decided, refusal, refused, staying

pytestmark = pytest.mark.kai

NewQueues = Callable[..., dict[str, str]]


@on_gpus(4)
def test_kai_goes_round_the_gpus_of_the_default_scheduler(
    place: Place, new_queues: NewQueues, cluster: Cluster, gpu_nodes: tuple[NodeView, ...]
) -> None:
    """The queue may have all four GPUs, and KAI still neither uses, evicts nor counts what others have."""
    two_nodes_of_two(gpu_nodes)
    queue = new_queues(
        QueueSpec(name="department"),
        QueueSpec(name="team", parent="department", gpu=QueueResource(quota=4)),
    )["team"]
    place.submit(gpu_pod("other", gpus=2, scheduler=None))
    (other,) = place.running("other", timeout=WAIT)
    place.submit(gpu_pod("mine", gpus=2, queue=queue))
    (mine,) = place.running("mine", timeout=WAIT)
    assert mine.node != other.node
    place.submit(gpu_pod("more", gpus=1, queue=queue))
    (more,) = place.on_host(decided, "more", timeout=WAIT, what="placed or refused")
    assert refused(more)
    assert len(staying(place, [other, mine])) == 2
    cluster.wait(
        "Queue",
        lambda queues: [QueueView.of(obj).gpus_allocated for obj in queues] == [2],
        fields=f"metadata.name={queue}",
        timeout=WAIT,
        what="the queue counts KAI's two GPUs only",
    )


@on_gpus(4)
def test_default_scheduler_takes_a_shared_gpu_for_a_whole_one(
    place: Place,
    queue: str,
    cluster: Cluster,
    gpu_nodes: tuple[NodeView, ...],
    probe: Callable[[PodView], Inside],
) -> None:
    two_nodes_of_two(gpu_nodes)
    place.submit(fraction_pod("half", fraction=0.5, queue=queue))
    (half,) = place.running("half", timeout=WAIT)
    place.submit(gpu_pod("pair", gpus=2, scheduler=None))
    (pair,) = place.on_host(decided, "pair", timeout=WAIT, what="placed or refused")
    assert pair.node not in ("", half.node)
    place.submit(gpu_pod("another-pair", gpus=2, scheduler=None))
    (another,) = place.on_host(decided, "another-pair", timeout=WAIT, what="placed or refused")
    assert "Insufficient nvidia.com/gpu" in refusal(another)
    place.submit(gpu_pod("single", scheduler=None))
    (single,) = place.running("single", timeout=WAIT)
    assert single.node == half.node
    (held,) = reservations(cluster, gpu_group(half))
    assert held.gpu_uuid not in probe(single).visible


@on_gpus(4)
@pytest.mark.breaks("whole-gpus", reason="a pod is bound over KAI")
def test_pod_bound_over_kai_is_failed_by_the_kubelet(place: Place, queue: str, gpu_nodes: tuple[NodeView, ...]) -> None:
    """As it ends when another scheduler binds to GPUs that KAI has just given away."""
    two_nodes_of_two(gpu_nodes)
    place.submit(gpu_pod("mine", gpus=2, queue=queue))
    (mine,) = place.running("mine", timeout=WAIT)
    place.submit(bound_to(gpu_pod("over", scheduler=None), mine.node))
    (over,) = place.on_host(
        lambda pod: pod.phase in ("Failed", "Running"), "over", timeout=WAIT, what="taken or failed"
    )
    assert over.phase == "Failed"
    assert over.reason in ("UnexpectedAdmissionError", "OutOfnvidia.com/gpu")
    (still,) = staying(place, [mine])
    assert still.ready
    place.submit(gpu_pod("next", gpus=2, queue=queue))  # the failed pod holds nothing, here and elsewhere
    (after,) = place.on_host(bound, "next", timeout=WAIT, what="placed")
    assert after.node != mine.node
