"""Changes made behind the backs of KAI and the suites: functions called with every change of a kind."""

from __future__ import annotations

import itertools
import uuid
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
    """Whether a suite created this object on the host: it is in a namespace of a test, or is a queue of a test."""
    meta = obj["metadata"]
    return str(meta.get("namespace", "")).startswith("t-") or TEST_LABEL in (meta.get("labels") or {})


def share_set(key: str, value: float) -> Act:
    """Set the quota, limit or overQuotaWeight of every resource in every queue of a test."""

    def act(cluster: Cluster, change: str, queue: Json) -> None:
        shares = queue["spec"].get("resources", {})
        wrong = [name for name in RESOURCES if shares.get(name, {}).get(key) != value]
        if change != "DELETED" and of_a_test(queue) and wrong:
            resources = {name: {key: value} for name in wrong}
            cluster.patch(QUEUE, queue["metadata"]["name"], {"spec": {"resources": resources}})

    return act


def priority_evened(cluster: Cluster, change: str, queue: Json) -> None:
    """Set every queue of a test to KAI's default priority."""
    if change != "DELETED" and of_a_test(queue) and queue["spec"].get("priority", 100) != 100:
        cluster.patch(QUEUE, queue["metadata"]["name"], {"spec": {"priority": 100}})


def queue_recreated(cluster: Cluster, change: str, queue: Json) -> None:
    """Recreate a deleted leaf queue of a test."""
    if change == "DELETED" and of_a_test(queue) and not (queue.get("status") or {}).get("childQueues"):
        meta = {key: queue["metadata"][key] for key in ("name", "labels")}
        cluster.apply([{"apiVersion": queue["apiVersion"], "kind": "Queue", "metadata": meta, "spec": queue["spec"]}])


def minimum_set(value: int) -> Act:
    """Set minMember of every gang of a test."""

    def act(cluster: Cluster, change: str, group: Json) -> None:
        minimum = group["spec"].get("minMember", 1)
        if change != "DELETED" and of_a_test(group) and minimum > 1 and minimum != value:
            meta = group["metadata"]
            cluster.patch("PodGroup", meta["name"], {"spec": {"minMember": value}}, meta["namespace"])

    return act


def bound_over() -> Act:
    """Bind every new pod of a test, as another scheduler would, to the GPU nodes in turn."""
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


def over_packed() -> Act:
    """Let KAI's binder put all fractions of a test on one GPU.

    The scheduler names node and GPU in a BindRequest (pkg/scheduler/cache/cache.go, KAI 0.16.8); one that exists
    already keeps it from writing its own.
    """
    group = str(uuid.uuid4())
    taken: list[str] = []

    def act(cluster: Cluster, change: str, obj: Json) -> None:
        pod = PodView.of(obj)
        if change != "ADDED" or not of_a_test(obj) or pod.requests.fraction is None or pod.node:
            return
        if not taken:
            selected = (obj["spec"].get("nodeSelector") or {}).get("kubernetes.io/hostname")
            taken.append(selected or next(node.name for node in map(NodeView.of, cluster.list("Node")) if node.gpus))
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        spec = {
            "podName": pod.name,
            "selectedNode": taken[0],
            "selectedGPUGroups": [group],
            "receivedResourceType": "Fraction",
            "receivedGPU": {"count": 1, "portion": f"{pod.requests.fraction:.2f}"},
        }
        meta = {"name": pod.name, "namespace": pod.namespace, "ownerReferences": [owner]}
        kind = {"apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest"}
        cluster.create({**kind, "metadata": meta, "spec": spec})

    return act


def evicted(cluster: Cluster, change: str, obj: Json) -> None:
    """Delete a GPU pod that KAI placed for a test as soon as it is ready."""
    pod = PodView.of(obj)
    mine = of_a_test(obj) and pod.scheduler_name == KAI_SCHEDULER and pod.requests.gpus
    if change != "DELETED" and mine and pod.ready and not pod.deleting:
        cluster.delete("Pod", pod.name, pod.namespace, grace=0)


def neighbour_disturbed() -> Act:
    """Delete pods that share a GPU for a test, once the monitor has created its baseline of small pods."""
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
    """Delete a reservation pod as soon as it holds its GPU."""
    pod = PodView.of(obj)
    holds = pod.namespace == RESERVATIONS and RESERVED_GPU_ANNOTATION in pod.annotations
    if change != "DELETED" and holds and not pod.deleting:
        cluster.delete("Pod", pod.name, pod.namespace, grace=0)


def racks_unlabelled(cluster: Cluster, change: str, node: Json) -> None:
    """Remove the labels of zones and racks from a node."""
    found = [key for key in ZONE_AND_RACK if key in (node["metadata"].get("labels") or {})]
    if change != "DELETED" and found:
        cluster.patch("Node", node["metadata"]["name"], {"metadata": {"labels": dict.fromkeys(found)}})


def cordon_spread(cluster: Cluster, change: str, node: Json) -> None:
    """When one node is cordoned, cordon all others."""
    if change != "DELETED" and node["spec"].get("unschedulable"):
        for other in map(NodeView.of, cluster.list("Node")):
            if not other.unschedulable:
                cluster.patch("Node", other.name, {"spec": {"unschedulable": True}})


def usage_history_off(cluster: Cluster, change: str, shard: Json) -> None:
    """Take past usage out of the fair share."""
    if change != "DELETED" and shard["spec"].get("kValue"):
        cluster.patch(*SHARD, {"spec": {"kValue": 0}})


def packed_again(cluster: Cluster, change: str, shard: Json) -> None:
    """Set a shard that spreads back to binpack."""
    strategy = shard["spec"].get("placementStrategy") or {}
    if change != "DELETED" and strategy.get("gpu") == "spread":
        cluster.patch(*SHARD, {"spec": {"placementStrategy": {"gpu": "binpack", "cpu": "binpack"}}})
