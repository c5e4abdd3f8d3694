"""Assertions and helpers that several suites share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pytest

from lab.kai.names import GPU_GROUP_LABEL, KAI_SCHEDULER
from lab.kube import Cluster
from lab.objects.kai import PodGroupView
from lab.objects.views import NodeView, PodView
from lab.steps.kai.step import RESERVATIONS
from lab.workloads.namespace import WorkloadNamespace

Test = TypeVar("Test", bound=Callable[..., object])


def on_gpus(least: int = 1) -> Callable[[Test], Test]:
    """Mark a test that needs exclusive use of all GPUs."""
    return _marked(pytest.mark.gpus(min=least), pytest.mark.usefixtures("gpu_lock", "free_gpus"))


def on_one_node(least: int = 1) -> Callable[[Test], Test]:
    """Mark a test that needs exclusive use of one node's GPUs; other tests may use another node at the same time."""
    return _marked(pytest.mark.gpus(min=least), pytest.mark.usefixtures("gpu_node_lease", "free_gpus"))


def _marked(*marks: pytest.MarkDecorator) -> Callable[[Test], Test]:
    def mark(test: Test) -> Test:
        for decorate in marks:
            test = decorate(test)
        return test

    return mark


def assert_scheduled_by_kai(workloads: WorkloadNamespace, pod: PodView, received: str) -> PodGroupView:
    """Assert that KAI placed this host pod with resource type ``received`` (Regular, Fraction); return its PodGroup."""
    assert pod.scheduler_name == KAI_SCHEDULER
    assert pod.node
    assert pod.received_resource_type == received
    assert workloads.event(pod, "Scheduled").reporter == KAI_SCHEDULER
    assert pod.pod_group, f"pod {pod.name} has no annotation pod-group-name"
    group = workloads.host.get("PodGroup", pod.pod_group, pod.namespace)
    assert group is not None, f"PodGroup {pod.namespace}/{pod.pod_group} does not exist"
    return PodGroupView.of(group)


def gpu_group(*pods: PodView) -> str:
    """Return the GPU group that all these pods share."""
    groups = {pod.name: pod.gpu_groups for pod in pods}
    assert len(set(groups.values())) == 1, f"not on one GPU: {groups}"
    (group,) = pods[0].gpu_groups
    return group


def reservations(cluster: Cluster, group: str) -> list[PodView]:
    """Return the current reservation pods of a GPU group."""
    pods = cluster.list("Pod", RESERVATIONS, labels=f"{GPU_GROUP_LABEL}={group}")
    return [PodView.of(pod) for pod in pods]


def shares(cluster: Cluster, pods: Iterable[PodView]) -> dict[str, float]:
    """Return the share of each GPU that fractional pods use, by UUID; assert one reservation pod for each GPU group."""
    held: defaultdict[str, float] = defaultdict(float)
    for pod in pods:
        (reservation,) = reservations(cluster, gpu_group(pod))
        assert reservation.reserved_gpu
        assert reservation.node == pod.node
        held[reservation.reserved_gpu] += pod.requests.fraction or 0.0
    return dict(held)


def needs_two_gpus(leased_node: NodeView) -> None:
    """Skip a test that leaves GPUs of its node to others."""
    if leased_node.gpus < 2:
        pytest.skip(f"needs 2 GPUs on one node, {leased_node.name} has {leased_node.gpus}")


def two_nodes_of_two(nodes: Sequence[NodeView]) -> tuple[str, str]:
    """Names of the two GPU nodes, for tests that need exactly two nodes with two GPUs each."""
    if [node.gpus for node in nodes] != [2, 2]:
        there = ", ".join(f"{node.name} with {node.gpus}" for node in nodes) or "none"
        pytest.skip(f"needs exactly 2 nodes with 2 GPUs each, the lab has {there}")
    first, second = nodes
    return first.name, second.name
