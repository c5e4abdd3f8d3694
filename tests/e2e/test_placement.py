"""Placement of pods that fit on several GPUs or nodes: packed by default, spread if the shard is configured so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.objects.views import NodeView, PodView
from lab.session.lab import Lab
from lab.workloads.modifiers import on_node
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import fraction_pod, gpu_pod

from .checks import gpu_group, on_gpus
from .scheduling_decisions import WAIT, bound
from .shards import shard_changed, spread_by

pytestmark = pytest.mark.kai


@on_gpus(nodes=2, per_node=2)
def test_pods_are_packed_onto_one_node(
    lab: Lab, workloads: WorkloadNamespace, queue: str, gpu_nodes: tuple[NodeView, ...]
) -> None:
    if spreading := spread_by(lab):
        pytest.skip(f"KAI of this cluster does not pack: {spreading}")
    if any(node.gpus == 1 for node in gpu_nodes):
        pytest.skip("needs 2 free GPUs on every node that has one: packing begins with the fullest")
    nodes = []
    for name in ("first", "second"):
        workloads.submit(gpu_pod(name, queue=queue))
        (pod,) = workloads.on_host(bound, name, timeout=WAIT, what="placed")
        nodes.append(pod.node)
    assert nodes[0] == nodes[1]


@pytest.fixture
def spread(lab: Lab) -> Iterator[None]:
    """KAI with the placement strategy spread, for GPUs and for CPUs."""
    with shard_changed(lab, {"placementStrategy": {"gpu": "spread", "cpu": "spread"}}):
        yield


@pytest.mark.kai(">=0.12")
@pytest.mark.disturbs("KAI's scheduler restarts with another placement strategy", only="kai")
@on_gpus(nodes=2, per_node=2)
def test_pods_are_spread_over_nodes_and_gpus(spread: None, workloads: WorkloadNamespace, queue: str) -> None:
    def placed(pod: dict[str, Any]) -> PodView:
        workloads.submit(pod)
        (view,) = workloads.on_host(bound, pod["metadata"]["name"], timeout=WAIT, what="placed")
        return view

    first = placed(fraction_pod("half-a", fraction=0.5, queue=queue))
    assert placed(gpu_pod("whole", queue=queue)).node != first.node
    placed(on_node(fraction_pod("half-b", fraction=0.5, queue=queue), first.node))
    a, b = workloads.on_host(lambda pod: bool(pod.gpu_groups), "half-a", "half-b", timeout=WAIT, what="on a GPU")
    assert gpu_group(a) != gpu_group(b)
