"""Elastic gangs: they start with their minimum, grow into free capacity, and lose only the pods above the minimum."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.config import QueueResource, QueueSpec
from lab.kube import Cluster
from lab.objects.views import NodeView
from lab.workloads.controllers import pod_group
from lab.workloads.modifiers import brief, in_group
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod, gpu_pod

from .checks import department, on_one_node
from .scheduling_decisions import OVER_LIMIT, WAIT, bound, decided, evictions, refusal, surviving

pytestmark = pytest.mark.kai

POD_MILLICORES = 100
"""CPU request of a pod of cpu_pod."""

NewQueues = Callable[..., dict[str, str]]


def test_elastic_gang_starts_at_its_minimum_and_grows(
    workloads: WorkloadNamespace, new_queues: NewQueues, cluster: Cluster
) -> None:
    limit = QueueResource(limit=2 * POD_MILLICORES)
    queue = new_queues(QueueSpec(name="department"), QueueSpec(name="team", parent="department", cpu=limit))["team"]
    group = f"{workloads.namespace}-elastic"
    members = ("worker-a", "worker-b", "worker-c")
    workloads.submit(pod_group(group, queue=queue, minimum=2))
    workloads.submit(*(in_group(cpu_pod(member, queue=queue), group) for member in members))
    pods = workloads.on_host(decided, *members, timeout=WAIT, what="placed or refused")
    assert sorted(bound(pod) for pod in pods) == [False, True, True]
    assert all(bound(pod) or OVER_LIMIT in refusal(pod) for pod in pods)
    cluster.patch("Queue", queue, {"spec": {"resources": {"cpu": {"limit": 3 * POD_MILLICORES}}}})
    workloads.on_host(bound, *members, timeout=WAIT, what="placed")


@on_one_node(2)
def test_elastic_gang_gives_back_what_is_above_its_minimum(
    workloads: WorkloadNamespace, new_queues: NewQueues, leased_node: NodeView
) -> None:
    """The gang has every GPU of the node, one above its quota; if it needed all of its pods, it would lose all."""
    own = leased_node.gpus - 1
    names = new_queues(
        department(leased_node),
        QueueSpec(name="elastic", parent="department", gpu=QueueResource(quota=own)),
        QueueSpec(name="owner", parent="department", gpu=QueueResource(quota=1)),
    )
    group = f"{workloads.namespace}-elastic"
    members = [f"worker-{number}" for number in range(leased_node.gpus)]
    workloads.submit(pod_group(group, queue=names["elastic"], minimum=own))
    workloads.submit(*(in_group(brief(gpu_pod(member, queue=names["elastic"])), group) for member in members))
    workers = workloads.running(*members, timeout=WAIT)
    workloads.submit(gpu_pod("owner", queue=names["owner"]))
    workloads.running("owner", timeout=WAIT)
    assert len(surviving(workloads, workers)) == own
    assert evictions(workloads, *workers) == ["reclaim"]
