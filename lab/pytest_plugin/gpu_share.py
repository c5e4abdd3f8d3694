"""The GPUs that tests may use.

In the lab's own cluster these are all GPUs outside tenants' dedicated nodes. In a cluster that others use they are
those that no pod of others has, on nodes that are Ready and take any pod, and no more than tenants outside the lab's
queues leave of its budget.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from lab.config.budget import queues_budget
from lab.kai.names import GPU_RESOURCE
from lab.kube import OWNER_LABEL, Cluster
from lab.objects.isolation_labels import NODE_LABEL
from lab.objects.views import NodeView
from lab.session.lab import Lab
from lab.snapshot.node_info import NodeInfo, read_node_infos


def shared_nodes(cluster: Cluster) -> tuple[NodeView, ...]:
    """Nodes that no tenant has as dedicated nodes: the host schedules to these."""
    return tuple(node for node in map(NodeView.of, cluster.list("Node")) if NODE_LABEL not in node.labels)


def usable_nodes(lab: Lab) -> tuple[NodeView, ...]:
    """Nodes with GPUs for tests; ``gpus`` of each are those that tests may use there, alone. Raises ApiFailed."""
    if lab.spec.cluster.own:
        return tuple(node for node in shared_nodes(lab.cluster) if node.gpus)
    spaces = lab.cluster.list("Namespace", labels=f"{OWNER_LABEL}={lab.spec.name}")
    mine = {space["metadata"]["name"] for space in spaces}
    found = []
    for info in read_node_infos(lab.cluster):
        gpus = min(free_of_others(info, mine), _budget(lab)) if takes_any_pod(info.node) else 0
        if gpus:
            found.append(replace(info.node, gpus=gpus))
    return tuple(found)


def gpu_total(lab: Lab) -> int:
    """GPUs that tests may use at the same time. Raises ApiFailed."""
    if lab.gpu_mode == "none":
        return 0
    return min(sum(node.gpus for node in usable_nodes(lab)), _budget(lab))


def node_shares(lab: Lab) -> dict[str, int]:
    """Node → GPUs that a test may use there, beside tests on the other nodes. Raises ApiFailed.

    The nodes with most GPUs come first, so that a budget is not split over more nodes than necessary.
    """
    left, shares = _budget(lab), {}
    for node in sorted(usable_nodes(lab), key=lambda node: (-node.gpus, node.name)):
        if share := min(node.gpus, left):
            shares[node.name] = share
            left -= share
    return shares


def takes_any_pod(node: NodeView) -> bool:
    """Whether pods without tolerations get whole GPUs of the node: time-slices are no GPUs of their own."""
    tainted = any(not taint.endswith(":PreferNoSchedule") for taint in node.taints)
    ready = node.ready and not node.unschedulable and not tainted
    return ready and NODE_LABEL not in node.labels and node.gpu_replicas == 1


def free_of_others(info: NodeInfo, mine: Collection[str]) -> int:
    """GPUs of a node that no pod outside the namespaces ``mine`` has, whole or shared.

    A reservation pod counts for the pods that share its GPU; without any, KAI is about to delete it.
    """
    others = [pod for pod in info.pods if pod.view.namespace not in mine and not pod.is_reservation]
    whole = sum(pod.requests.gpus for pod in others)
    shared = sum(any(user.view.namespace not in mine for user in gpu.users) for gpu in info.shared)
    return max(0, int(info.allocatable.get(GPU_RESOURCE, 0)) - whole - shared)


def _budget(lab: Lab) -> int:
    gpus = queues_budget(lab.spec)
    return 2**31 if lab.spec.cluster.own or gpus is None else int(gpus)
