"""Elastic gangs: they start at their minimum, grow while there is room, and give back only what is above it."""

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

from .checks import needs_two_gpus, on_one_node
from .scheduling_decisions import OVER_LIMIT, WAIT, bound, decided, evictions, refusal, staying

pytestmark = pytest.mark.kai

POD_MILLICORES = 100
"""What a pod of cpu_pod requests."""

NewQueues = Callable[..., dict[str, str]]


def test_elastic_gang_starts_at_its_minimum_and_grows(
    place: WorkloadNamespace, new_queues: NewQueues, cluster: Cluster
) -> None:
    limit = QueueResource(limit=2 * POD_MILLICORES)
    queue = new_queues(QueueSpec(name="department"), QueueSpec(name="team", parent="department", cpu=limit))["team"]
    group = f"{place.namespace}-elastic"
    members = ("worker-a", "worker-b", "worker-c")
    place.submit(pod_group(group, queue=queue, minimum=2))
    place.submit(*(in_group(cpu_pod(member, queue=queue), group) for member in members))
    pods = place.on_host(decided, *members, timeout=WAIT, what="placed or refused")
    assert sorted(bound(pod) for pod in pods) == [False, True, True]
    assert all(bound(pod) or OVER_LIMIT in refusal(pod) for pod in pods)
    cluster.patch("Queue", queue, {"spec": {"resources": {"cpu": {"limit": 3 * POD_MILLICORES}}}})
    place.on_host(bound, *members, timeout=WAIT, what="placed")


@on_one_node(2)
def test_elastic_gang_gives_back_what_is_above_its_minimum(
    place: WorkloadNamespace, new_queues: NewQueues, home: NodeView
) -> None:
    """It has every GPU of the node, one more than its quota; if it needed all of its pods, it would lose all."""
    needs_two_gpus(home)
    own = home.gpus - 1
    names = new_queues(
        QueueSpec(name="department"),
        QueueSpec(name="elastic", parent="department", gpu=QueueResource(quota=own)),
        QueueSpec(name="owner", parent="department", gpu=QueueResource(quota=1)),
    )
    group = f"{place.namespace}-elastic"
    members = [f"worker-{number}" for number in range(home.gpus)]
    place.submit(pod_group(group, queue=names["elastic"], minimum=own))
    place.submit(*(in_group(brief(gpu_pod(member, queue=names["elastic"])), group) for member in members))
    workers = place.running(*members, timeout=WAIT)
    place.submit(gpu_pod("owner", queue=names["owner"]))
    place.running("owner", timeout=WAIT)
    assert len(staying(place, workers)) == own
    assert evictions(place, *workers) == ["reclaim"]
