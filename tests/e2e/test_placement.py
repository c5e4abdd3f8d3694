"""Where KAI puts pods that fit in several places: together by default, apart where its shard says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.api import Lab
from lab.kube.views import NodeView
from lab.parts.place import Place
from lab.parts.workloads import fraction_pod, gpu_pod
from lab.parts.workloads_traits import on_node

from .checks import gpu_group, on_gpus, two_nodes_of_two
from .shards import shard_changed
from .verdicts import WAIT, bound

pytestmark = pytest.mark.kai


@on_gpus(4)
def test_pods_are_packed_onto_one_node(place: Place, queue: str, gpu_nodes: tuple[NodeView, ...]) -> None:
    two_nodes_of_two(gpu_nodes)
    nodes = []
    for name in ("first", "second"):
        place.submit(gpu_pod(name, queue=queue))
        (pod,) = place.on_host(bound, name, timeout=WAIT, what="placed")
        nodes.append(pod.node)
    assert nodes[0] == nodes[1]


@pytest.fixture
def spread(lab: Lab) -> Iterator[None]:
    """KAI with the placement strategy spread, for GPUs and for CPUs."""
    with shard_changed(lab, {"placementStrategy": {"gpu": "spread", "cpu": "spread"}}):
        yield


@pytest.mark.kai(">=0.12")
@pytest.mark.disturbs("KAI's scheduler restarts with another placement strategy")
@on_gpus(4)
def test_pods_are_spread_over_nodes_and_gpus(
    spread: None, place: Place, queue: str, gpu_nodes: tuple[NodeView, ...]
) -> None:
    two_nodes_of_two(gpu_nodes)
    place.submit(gpu_pod("first", queue=queue))
    (first,) = place.on_host(bound, "first", timeout=WAIT, what="placed")
    place.submit(gpu_pod("second", queue=queue))
    (second,) = place.on_host(bound, "second", timeout=WAIT, what="placed")
    assert second.node != first.node
    place.remove("first", timeout=WAIT)
    halves = ("half-a", "half-b")
    for name in halves:  # on a node with two free GPUs, one after the other
        place.submit(on_node(fraction_pod(name, fraction=0.5, queue=queue), first.node))
        place.on_host(bound, name, timeout=WAIT, what="placed")
    a, b = place.on_host(lambda pod: bool(pod.gpu_groups), *halves, timeout=WAIT, what="on a GPU")
    assert gpu_group(a) != gpu_group(b)
