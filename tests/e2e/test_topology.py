"""Topology-aware placement: a Topology of zones and racks, and gangs that must stay within one of them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from lab.kube import Cluster
from lab.objects.views import NodeView
from lab.session.lab import Lab
from lab.workloads.controllers import pod_group
from lab.workloads.modifiers import brief, in_group, on_node
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import gpu_pod
from lab.workloads.temporary import owner_labels

from .checks import on_gpus, two_nodes_of_two
from .nodes import RACK, ZONE, labelled
from .scheduling_decisions import WAIT, bound, decided

pytestmark = pytest.mark.kai(">=0.12")  # the Topology of kai.scheduler/v1alpha1


@pytest.fixture
def topology(lab: Lab, cluster: Cluster, gpu_nodes: tuple[NodeView, ...]) -> Iterator[str]:
    """Create a Topology with both nodes in one zone and each in its own rack; return its name."""
    two_nodes_of_two(gpu_nodes)
    name = f"kailab-{secrets.token_hex(3)}"
    racks = {node.name: {ZONE: "z1", RACK: f"r{number}"} for number, node in enumerate(gpu_nodes)}
    with labelled(cluster, lab.spec.name, racks):
        try:
            cluster.create(
                {
                    "apiVersion": "kai.scheduler/v1alpha1",
                    "kind": "Topology",
                    "metadata": {"name": name, "labels": owner_labels(lab.spec.name)},
                    "spec": {"levels": [{"nodeLabel": ZONE}, {"nodeLabel": RACK}]},
                }
            )
            yield name
        finally:
            cluster.delete("Topology", name, wait=WAIT)


def submit_gang(
    workloads: WorkloadNamespace, queue: str, members: tuple[str, ...], topology: str, required: str
) -> None:
    """Return a gang with a GPU for each member, restricted to one domain of this level."""
    group = f"{workloads.namespace}-{members[0]}"
    workloads.submit(pod_group(group, queue=queue, minimum=len(members), topology=topology, required=required))
    workloads.submit(*(in_group(brief(gpu_pod(member, queue=queue)), group) for member in members))


@on_gpus(4)
def test_gang_stays_within_one_rack(
    workloads: WorkloadNamespace, queue: str, topology: str, gpu_nodes: tuple[NodeView, ...]
) -> None:
    """One GPU is in use: packing alone would put one member on its node and the other on another node."""
    taken, free = two_nodes_of_two(gpu_nodes)
    workloads.submit(on_node(gpu_pod("taken", queue=queue), taken))
    workloads.on_host(bound, "taken", timeout=WAIT, what="placed")
    submit_gang(workloads, queue, ("left", "right"), topology, RACK)
    pods = workloads.on_host(bound, "left", "right", timeout=WAIT, what="placed")
    assert {pod.node for pod in pods} == {free}


@on_gpus(4)
def test_gang_that_no_rack_can_hold_waits_beside_free_gpus(
    workloads: WorkloadNamespace, queue: str, topology: str
) -> None:
    rack, zone = ("rack-a", "rack-b", "rack-c"), ("zone-a", "zone-b", "zone-c")
    submit_gang(workloads, queue, rack, topology, RACK)
    waiting = workloads.on_host(decided, *rack, timeout=WAIT, what="placed or refused")
    assert [bound(pod) for pod in waiting] == [False] * len(rack)
    submit_gang(workloads, queue, zone, topology, ZONE)
    workloads.on_host(bound, *zone, timeout=WAIT, what="placed: the zone has enough GPUs")
