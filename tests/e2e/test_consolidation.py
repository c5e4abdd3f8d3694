"""Consolidation: KAI moves running workloads together to make room for a pod that needs a whole node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from lab.config import QueueSpec
from lab.kube import Cluster
from lab.objects.views import NodeView, PodView
from lab.session.lab import Lab
from lab.workloads.controllers import APP_LABEL, deployment
from lab.workloads.modifiers import among_nodes, brief, of_priority, on_node
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import gpu_pod

from .checks import needs_gpus, on_gpus, smallest_two
from .scheduling_decisions import WAIT, evictions, wait_for_all

pytestmark = pytest.mark.kai

SERVICES = ("alpha", "beta", "gamma")


@on_gpus(nodes=2, per_node=2)
def test_fragmented_gpus_are_consolidated(
    lab: Lab,
    workloads: WorkloadNamespace,
    new_workloads: Callable[..., WorkloadNamespace],
    new_queues: Callable[..., dict[str, str]],
    cluster: Cluster,
    gpu_nodes: tuple[NodeView, ...],
) -> None:
    """On two nodes; where they have more than two GPUs, other pods have the rest."""
    two = smallest_two(gpu_nodes)
    needs_gpus(lab, sum(node.gpus for node in two))
    names = [node.name for node in two]
    queue = new_queues(QueueSpec(name="department"), QueueSpec(name="team", parent="department"))["team"]
    rest = {node.name: gpu_pod(f"rest-{node.name}", gpus=node.gpus - 2, queue=queue) for node in two if node.gpus > 2}
    if rest:
        beside = new_workloads()
        beside.submit(*(on_node(pod, node) for node, pod in rest.items()))
        beside.running(*(pod["metadata"]["name"] for pod in rest.values()), timeout=WAIT)
    one = of_priority(brief(gpu_pod(queue=queue)), "train")  # Deployments would not be preemptible otherwise
    workloads.submit(*(deployment(name, among_nodes(one, *names)) for name in SERVICES))
    running = wait_for_all(workloads, ready(3), what="three services with a GPU each are ready")

    # Two share a node; when one of them is deleted, each node has one GPU in use and one free.
    full, _ = Counter(pod.node for pod in running).most_common(1)[0]
    leaving = next(pod for pod in running if pod.node == full)
    cluster.delete("Deployment", leaving.labels[APP_LABEL], workloads.namespace)
    before = wait_for_all(workloads, ready(2), what="two services are left, each on its own node")
    assert len({pod.node for pod in before}) == 2

    workloads.submit(among_nodes(gpu_pod("whole-node", gpus=2, queue=queue), *names))
    (big,) = workloads.running("whole-node", timeout=WAIT)
    after = [
        pod
        for pod in wait_for_all(workloads, ready(3), what="both services and the pod of a whole node are ready")
        if pod.uid != big.uid
    ]
    assert {pod.node for pod in after} == set(names) - {big.node}
    moved = {pod.uid for pod in before} - {pod.uid for pod in after}
    assert len(moved) == 1
    assert evictions(workloads, *(pod for pod in before if pod.uid in moved)) == ["consolidation"]


def ready(count: int) -> Callable[[list[PodView]], bool]:
    """Whether all pods are ready, in this number."""
    return lambda pods: len(pods) == count and all(pod.ready for pod in pods)
