"""What meddlers do behind the backs of KAI and of the suites: one function each, called with every change of a kind."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from lab.kai.names import KAI_SCHEDULER, RESERVED_GPU_ANNOTATION
from lab.kube import Cluster
from lab.objects.views import NodeView, PodView
from lab.steps.kai.step import RESERVATIONS
from lab.steps.queues import KIND as QUEUE
from lab.steps.queues import TEST_LABEL
from tests.e2e.nodes import ZONE_AND_RACK
from tests.e2e.noisy_neighbour.course import BASELINE
from tests.e2e.noisy_neighbour.monitor import MARK
from tests.e2e.shards import SHARD

RESOURCES = ("gpu", "cpu", "memory")
Json = dict[str, Any]
Act = Callable[[Cluster, str, Json], None]


def of_a_test(obj: Json) -> bool:
    """Whether a suite on the host made this object: its namespace is a test's, or it is a test's queue."""
    meta = obj["metadata"]
    return str(meta.get("namespace", "")).startswith("t-") or TEST_LABEL in (meta.get("labels") or {})


def share_set(key: str, value: float) -> Act:
    """Every queue of a test has this quota, limit or overQuotaWeight of every resource."""

    def act(cluster: Cluster, change: str, queue: Json) -> None:
        shares = queue["spec"].get("resources", {})
        wrong = [name for name in RESOURCES if shares.get(name, {}).get(key) != value]
        if change != "DELETED" and of_a_test(queue) and wrong:
            resources = {name: {key: value} for name in wrong}
            cluster.patch(QUEUE, queue["metadata"]["name"], {"spec": {"resources": resources}})

    return act


def priority_evened(cluster: Cluster, change: str, queue: Json) -> None:
    """Every queue of a test has KAI's usual priority."""
    if change != "DELETED" and of_a_test(queue) and queue["spec"].get("priority", 100) != 100:
        cluster.patch(QUEUE, queue["metadata"]["name"], {"spec": {"priority": 100}})


def queue_put_back(cluster: Cluster, change: str, queue: Json) -> None:
    """A leaf queue of a test that is deleted is there again at once."""
    if change == "DELETED" and of_a_test(queue) and not (queue.get("status") or {}).get("childQueues"):
        meta = {key: queue["metadata"][key] for key in ("name", "labels")}
        cluster.apply([{"apiVersion": queue["apiVersion"], "kind": "Queue", "metadata": meta, "spec": queue["spec"]}])


def minimum_set(value: int) -> Act:
    """Every gang of a test needs so many of its members."""

    def act(cluster: Cluster, change: str, group: Json) -> None:
        minimum = group["spec"].get("minMember", 1)
        if change != "DELETED" and of_a_test(group) and minimum > 1 and minimum != value:
            meta = group["metadata"]
            cluster.patch("PodGroup", meta["name"], {"spec": {"minMember": value}}, meta["namespace"])

    return act


def bound_over() -> Act:
    """Another scheduler binds every pod of a test as soon as it is there, to the GPU nodes in turn."""
    turns: list[Any] = []

    def act(cluster: Cluster, change: str, obj: Json) -> None:
        pod = PodView.of(obj)
        if change == "DELETED" or not of_a_test(obj) or pod.node or pod.deleting:
            return
        if not turns:
            nodes = [node.name for node in map(NodeView.of, cluster.list("Node")) if node.gpus]
            turns.append(itertools.cycle(nodes))
        meta = {"name": pod.name, "namespace": pod.namespace}
        target = {"apiVersion": "v1", "kind": "Node", "name": next(turns[0])}
        path = cluster.kinds.named("Pod").path(pod.namespace, pod.name, "binding")
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        cluster.calls.json("POST", path, title=f"binding of pod {pod.namespace}/{pod.name}", body=body)

    return act


def evicted(cluster: Cluster, change: str, obj: Json) -> None:
    """A GPU pod that KAI placed for a test is taken away as soon as it is ready."""
    pod = PodView.of(obj)
    mine = of_a_test(obj) and pod.scheduler_name == KAI_SCHEDULER and pod.requests.gpus
    if change != "DELETED" and mine and pod.ready and not pod.deleting:
        cluster.delete("Pod", pod.name, pod.namespace, grace=0)


def fire_spread() -> Act:
    """Pods that share a GPU for a test are taken away once the small pods of its vigil have come for a while."""
    small: set[str] = set()
    sharing: dict[str, PodView] = {}

    def act(cluster: Cluster, change: str, obj: Json) -> None:
        pod = PodView.of(obj)
        if not of_a_test(obj) or change == "DELETED":
            sharing.pop(pod.uid, None)
        elif MARK in pod.labels:
            small.add(pod.uid)
        elif pod.requests.fraction and pod.ready and not pod.deleting:
            sharing[pod.uid] = pod
        if len(small) > BASELINE:
            for uid in list(sharing):
                lost = sharing.pop(uid)
                cluster.delete("Pod", lost.name, lost.namespace, grace=0)

    return act


def reservation_removed(cluster: Cluster, change: str, obj: Json) -> None:
    """A reservation pod is taken away as soon as it holds its GPU."""
    pod = PodView.of(obj)
    holds = pod.namespace == RESERVATIONS and RESERVED_GPU_ANNOTATION in pod.annotations
    if change != "DELETED" and holds and not pod.deleting:
        cluster.delete("Pod", pod.name, pod.namespace, grace=0)


def racks_unlabelled(cluster: Cluster, change: str, node: Json) -> None:
    """Labels of zones and racks are taken off the nodes."""
    found = [key for key in ZONE_AND_RACK if key in (node["metadata"].get("labels") or {})]
    if change != "DELETED" and found:
        cluster.patch("Node", node["metadata"]["name"], {"metadata": {"labels": dict.fromkeys(found)}})


def cordon_spread(cluster: Cluster, change: str, node: Json) -> None:
    """When a node takes no pods, no other one does."""
    if change != "DELETED" and node["spec"].get("unschedulable"):
        for other in map(NodeView.of, cluster.list("Node")):
            if not other.unschedulable:
                cluster.patch("Node", other.name, {"spec": {"unschedulable": True}})


def history_forgotten(cluster: Cluster, change: str, shard: Json) -> None:
    """Past usage counts for nothing in the fair share."""
    if change != "DELETED" and shard["spec"].get("kValue"):
        cluster.patch(*SHARD, {"spec": {"kValue": 0}})


def packed_again(cluster: Cluster, change: str, shard: Json) -> None:
    """A shard that is told to spread goes back to packing."""
    strategy = shard["spec"].get("placementStrategy") or {}
    if change != "DELETED" and strategy.get("gpu") == "spread":
        cluster.patch(*SHARD, {"spec": {"placementStrategy": {"gpu": "binpack", "cpu": "binpack"}}})
