"""Effects of a failure: of KAI's components, a node, a reservation pod, a queue in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lab.config import QueueSpec
from lab.errors import ApiFailed
from lab.kube import Cluster
from lab.objects.views import NodeView, PodView
from lab.session.lab import Lab
from lab.steps.kai.step import RESERVATIONS
from lab.workloads.controllers import deployment
from lab.workloads.modifiers import brief, of_priority, on_node
from lab.workloads.namespace import Inside, WorkloadNamespace
from lab.workloads.pods import cpu_pod, fraction_pod

from .checks import gpu_group, on_gpus, on_one_node, reservations, shares
from .kai_components import end, kill, wait_until_up
from .nodes import cordoned, evict
from .scheduling_decisions import NO_QUEUE, WAIT, refusal, wait_for_all

pytestmark = pytest.mark.kai

TREE = (QueueSpec(name="department"), QueueSpec(name="team", parent="department"))
NewQueues = Callable[..., dict[str, str]]


@pytest.fixture
def sharing(workloads: WorkloadNamespace, new_queues: NewQueues) -> list[PodView]:
    """A Deployment of two evictable pods with half a GPU each."""
    half = of_priority(brief(fraction_pod(fraction=0.5, queue=new_queues(*TREE)["team"])), "train")
    workloads.submit(deployment("sharing", half, replicas=2))
    return wait_for_all(workloads, two_ready(), what="two pods with half a GPU each are ready")


def two_ready(*, without: list[PodView] | None = None, not_on: str = "") -> Callable[[list[PodView]], bool]:
    """Whether two pods exist, both ready, none of them among ``without`` or on node ``not_on``."""
    old = {pod.uid for pod in without or ()}
    return lambda pods: len(pods) == 2 and all(pod.ready and pod.uid not in old and pod.node != not_on for pod in pods)


@pytest.fixture
def whole_again(lab: Lab) -> Iterator[None]:
    """Wait at the end until all of KAI's components are up and its webhooks answer."""
    yield
    wait_until_up(lab)


@pytest.mark.disturbs("components of KAI are killed", only="kai")
@on_one_node(2)
def test_killed_component_loses_no_pod(
    whole_again: None, lab: Lab, cluster: Cluster, workloads: WorkloadNamespace, queue: str, leased_node: NodeView
) -> None:
    names = []
    for component in ("scheduler", "binder", "podgrouper"):
        before, after = f"before-{component}", f"after-{component}"
        names += [before, after]
        workloads.submit(fraction_pod(before, fraction=0.25, queue=queue))
        kill(lab, component)
        workloads.submit(fraction_pod(after, fraction=0.25, queue=queue))
        pods = workloads.running(*names, timeout=WAIT)
        assert all(used <= 1 for used in shares(cluster, pods).values())


@pytest.mark.kai(">=0.13")  # before, the webhooks see the pods of all schedulers
@pytest.mark.disturbs("KAI's admission webhook ends", only="kai")
def test_without_admission_only_pods_for_kai_are_refused(
    whole_again: None, lab: Lab, workloads: WorkloadNamespace, queue: str
) -> None:
    end(lab, "admission")  # the first readiness probe of the next pod is after 5 s, further ones every 10 s
    with pytest.raises(ApiFailed, match="failed calling webhook"):
        workloads.submit(cpu_pod("for-kai", queue=queue))
    workloads.submit(cpu_pod("plain", scheduler=None))
    workloads.running("plain", timeout=WAIT)
    wait_until_up(lab)
    workloads.submit(cpu_pod("for-kai", queue=queue))


@pytest.mark.disturbs("a node is drained", only="kai")
@on_gpus(nodes=2)
def test_pods_of_a_drained_node_come_back_elsewhere(
    sharing: list[PodView], workloads: WorkloadNamespace, lab: Lab, cluster: Cluster
) -> None:
    """Uses a Deployment: a Job waits out its back-off, and bare pods are not recreated."""
    node = sharing[0].node
    with cordoned(cluster, lab.spec.name, node):
        held = [PodView.of(obj) for obj in cluster.list("Pod", RESERVATIONS, fields=f"spec.nodeName={node}")]
        for pod in [pod for pod in sharing if pod.node == node] + held:
            evict(cluster, pod)
        after = wait_for_all(workloads, two_ready(not_on=node), what="two pods are ready on other nodes")
    assert all(used <= 1 for used in shares(cluster, after).values())
    cluster.wait(
        "Pod",
        lambda pods: all(PodView.of(pod).node != node for pod in pods),
        namespace=RESERVATIONS,
        timeout=WAIT,
        what=f"no GPU of {node} is reserved",
    )


@on_one_node()
@pytest.mark.breaks("reserved", reason="a reservation pod is deleted by hand")
def test_pods_without_their_reservation_are_made_anew(
    sharing: list[PodView],
    workloads: WorkloadNamespace,
    cluster: Cluster,
    queue: str,
    probe: Callable[[PodView], Inside],
) -> None:
    """Only when KAI binds the next pod to that node does its binder delete the pods that hold no GPU.

    (SyncForNode in pkg/binder/binding/resourcereservation/resource_reservation.go, KAI 0.9 to 0.17. The binder
    gets no event of a deleted reservation pod: it watches pods of its own scheduler only.)
    """
    node, group = sharing[0].node, gpu_group(sharing[0])
    for held in reservations(cluster, group):
        cluster.delete("Pod", held.name, RESERVATIONS, grace=0, wait=WAIT)
    lost = [pod for pod in sharing if group in pod.gpu_groups]
    bare = {pod.uid for pod in lost}
    workloads.submit(on_node(cpu_pod("next", queue=queue), node))

    def replaced(pods: list[PodView]) -> bool:
        halves = [pod for pod in pods if pod.requests.fraction]
        return len(halves) == 2 and all(pod.ready and pod.uid not in bare for pod in halves)

    halves = [pod for pod in wait_for_all(workloads, replaced, what="other pods replace them") if pod.requests.fraction]
    used = shares(cluster, halves)
    assert all(share <= 1 for share in used.values())
    for pod in halves:
        assert set(probe(pod).visible) <= used.keys()


@pytest.mark.kai(">=0.13")  # before, pods of an unknown queue wait in silence
@pytest.mark.breaks("leaf-queues", reason="the queue is deleted in use")
def test_queue_deleted_in_use(workloads: WorkloadNamespace, cluster: Cluster, new_queues: NewQueues) -> None:
    """The queue's pods keep running; new ones are refused, and placed when the queue exists again."""
    queue = new_queues(*TREE)["team"]
    workloads.submit(cpu_pod("working", queue=queue))
    (working,) = workloads.running("working", timeout=WAIT)
    document = cluster.get("Queue", queue)
    assert document is not None
    cluster.delete("Queue", queue, wait=WAIT)
    workloads.submit(cpu_pod("late", queue=queue))
    workloads.on_host(lambda pod: NO_QUEUE in refusal(pod), "late", timeout=WAIT, what="refused: unknown queue")
    again = {key: document[key] for key in ("apiVersion", "kind", "spec")}
    meta = {key: document["metadata"][key] for key in ("name", "labels")}
    cluster.apply([{**again, "metadata": meta}], retry=WAIT)
    still, _ = workloads.running("working", "late", timeout=WAIT)
    assert still.uid == working.uid
