"""Topology-aware placement: a Topology of zones and racks, and gangs that must stay within one of them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence

import pytest

from lab.kube import Cluster
from lab.objects.views import NodeView
from lab.pytest_plugin.scheduling import disturbs_others
from lab.session.lab import Lab
from lab.workloads.controllers import pod_group
from lab.workloads.modifiers import brief, in_group, on_node
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import gpu_pod
from lab.workloads.temporary import owner_labels

from .checks import needs_gpus, on_gpus, smallest_two
from .nodes import RACK, ZONE, labelled
from .scheduling_decisions import WAIT, bound, decided

pytestmark = pytest.mark.kai(">=0.12")  # the Topology of kai.scheduler/v1alpha1


@pytest.fixture
def topology(lab: Lab, cluster: Cluster, gpu_nodes: tuple[NodeView, ...]) -> Iterator[str]:
    """Create a Topology with two nodes in one zone and each in its own rack; return its name."""
    if why := disturbs_others(lab, "nodes get labels of racks"):
        pytest.skip(why)
    name = f"kailab-{secrets.token_hex(3)}"
    racks = {node.name: {ZONE: "z1", RACK: f"r{number}"} for number, node in enumerate(smallest_two(gpu_nodes))}
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


def submit_gang(workloads: WorkloadNamespace, queue: str, members: Sequence[str], topology: str, required: str) -> None:
    """Submit a gang with a GPU for each member, restricted to one domain of this level."""
    group = f"{workloads.namespace}-{members[0]}"
    workloads.submit(pod_group(group, queue=queue, minimum=len(members), topology=topology, required=required))
    workloads.submit(*(in_group(brief(gpu_pod(member, queue=queue)), group) for member in members))


@on_gpus(nodes=2, per_node=2)
def test_gang_stays_within_one_rack(
    lab: Lab, workloads: WorkloadNamespace, queue: str, topology: str, gpu_nodes: tuple[NodeView, ...]
) -> None:
    """A node has one GPU left: packing alone would put one member there and the other on another node."""
    taken, free = smallest_two(gpu_nodes)
    needs_gpus(lab, taken.gpus + 1)
    workloads.submit(on_node(gpu_pod("taken", gpus=taken.gpus - 1, queue=queue), taken.name))
    workloads.on_host(bound, "taken", timeout=WAIT, what="placed")
    submit_gang(workloads, queue, ("left", "right"), topology, RACK)
    pods = workloads.on_host(bound, "left", "right", timeout=WAIT, what="placed")
    assert {pod.node for pod in pods} == {free.name}


@on_gpus(nodes=2, per_node=2)
def test_gang_that_no_rack_can_hold_waits_beside_free_gpus(
    lab: Lab, workloads: WorkloadNamespace, queue: str, topology: str, gpu_nodes: tuple[NodeView, ...]
) -> None:
    size = max(node.gpus for node in smallest_two(gpu_nodes)) + 1
    needs_gpus(lab, size)
    rack, zone = ([f"{level}-{number}" for number in range(size)] for level in ("rack", "zone"))
    submit_gang(workloads, queue, rack, topology, RACK)
    waiting = workloads.on_host(decided, *rack, timeout=WAIT, what="placed or refused")
    assert [bound(pod) for pod in waiting] == [False] * len(rack)
    submit_gang(workloads, queue, zone, topology, ZONE)
    workloads.on_host(bound, *zone, timeout=WAIT, what="placed: the zone has enough GPUs")
