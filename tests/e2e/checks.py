"""Assertions and helpers that several suites share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pytest

from lab.config import QueueResource, QueueSpec
from lab.kai.names import GPU_GROUP_LABEL, GPU_RESOURCE, KAI_SCHEDULER
from lab.kube import Cluster
from lab.objects.kai import PodGroupView
from lab.objects.views import NodeView, PodView
from lab.pytest_plugin.fixtures import gpus_lack
from lab.session.lab import Lab
from lab.steps.kai.step import RESERVATIONS
from lab.workloads.namespace import WorkloadNamespace

Test = TypeVar("Test", bound=Callable[..., object])


def on_gpus(least: int = 1, *, nodes: int = 1, per_node: int = 1) -> Callable[[Test], Test]:
    """Mark a test that needs exclusive use of all GPUs, and so many on each of so many nodes."""
    needs = pytest.mark.gpus(min=max(least, nodes * per_node), nodes=nodes, per_node=per_node)
    return _marked(needs, pytest.mark.usefixtures("gpu_lock", "free_gpus"))


def on_one_node(least: int = 1) -> Callable[[Test], Test]:
    """Mark a test that needs exclusive use of one node's GPUs; other tests may use another node at the same time."""
    needs = pytest.mark.gpus(min=least, per_node=least)
    return _marked(needs, pytest.mark.usefixtures("gpu_node_lease", "free_gpus"))


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


def department(node: NodeView) -> QueueSpec:
    """The parent of a test's queues: limited where the test may not use all GPUs of its node."""
    all_of_them = node.gpus == node.allocatable[GPU_RESOURCE]
    return QueueSpec(name="department", gpu=QueueResource(limit=-1 if all_of_them else node.gpus))


def needs_whole_node(node: NodeView) -> None:
    """Skip a test whose node must have no other GPUs, since a scheduler without queues would use them."""
    if node.gpus < node.allocatable[GPU_RESOURCE]:
        there = f"{node.gpus} of {node.allocatable[GPU_RESOURCE]:g}"
        pytest.skip(f"needs all GPUs of a node; of {node.name} the test may use {there}")


def smallest_two(nodes: Sequence[NodeView]) -> tuple[NodeView, NodeView]:
    """The two nodes with fewest GPUs of those with two or more; the test's marker guarantees them."""
    first, second, *_ = sorted((node for node in nodes if node.gpus > 1), key=lambda node: (node.gpus, node.name))
    return first, second


def needs_gpus(lab: Lab, least: int) -> None:
    """Skip a test that needs more GPUs than it may use, on nodes of this size."""
    if why := gpus_lack(lab, least):
        pytest.skip(why)
