"""Rules on what tenants share with each other and with the host: GPUs, nodes, their quota, and KAI's own objects.

A vCluster shows a tenant every GPU of its nodes as free, whoever else has it (vCluster 0.36.1,
pkg/controllers/resources/nodes/translate.go), so that what really runs on the host is all that can be judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lab.config.labels import NODE_LABEL
from lab.findings import Finding
from lab.invariants.cluster_state import ClusterState
from lab.invariants.gpus import lines, some
from lab.invariants.model import breach
from lab.objects.fields import labels_of, quantity
from lab.snapshot.pod_info import PodInfo

SYSTEM_NAMESPACES = frozenset({"kube-system", "local-path-storage"})
"""The cluster's own, in kind: what runs there has been there before any node was given away, and wants no GPU."""

ON_EVERY_NODE = ("DaemonSet/", "Node/")
"""Owners of pods that belong to a node rather than to anybody on it; Node owns static pods."""

_COUNTED: dict[str, tuple[str, Callable[[PodInfo], float]]] = {
    "requests.nvidia.com/gpu": ("GPUs", lambda pod: pod.requests.gpus),
    "requests.cpu": ("cpu", lambda pod: pod.requests.cpu / 1000),
    "requests.memory": ("bytes of memory", lambda pod: pod.requests.memory),
    "pods": ("pods", lambda pod: 1),
}


def gpus_apart(scene: ClusterState) -> Iterator[Finding]:
    """A GPU belongs to one tenant with a KAI of its own, or to the host with all its other tenants."""
    told = {
        (_owner(scene, pod), pod.view.node, group): pod.view.reserved_gpu
        for group, pods in scene.gpus.reservations.items()
        for pod in pods
        if pod.view.reserved_gpu
    }
    anyones = {(node, group): uuid for (_, node, group), uuid in told.items()}
    found: dict[tuple[str, str], dict[str, dict[str, PodInfo]]] = {}
    for pod in scene.pods:
        if not pod.bound:
            continue
        owner, node = _owner(scene, pod), pod.view.node
        shared = [told.get((owner, node, group)) or anyones.get((node, group)) for group in pod.view.gpu_groups]
        for uuid in (*pod.reported_gpus, *([pod.view.reserved_gpu] if pod.is_reservation else []), *shared):
            if uuid:
                found.setdefault((node, uuid), {}).setdefault(owner, {})[pod.view.uid] = pod
    for (node, uuid), owners in found.items():
        if len(owners) > 1:
            names = " and ".join(f"tenant {name}" if name else "the host" for name in sorted(owners))
            yield breach(
                f"{node} {uuid}",
                f"GPU {uuid} of {node} is used by {names} at once, and neither's scheduler knows of the other",
                lines(pod for pods in owners.values() for pod in pods.values()),
            )


def own_nodes(scene: ClusterState) -> Iterator[Finding]:
    """A tenant with nodes of its own runs on these alone, and nobody else runs there.

    Seen from the host: inside a tenant its nodes carry the label as well, and all pods there are its own.
    """
    if scene.inside:
        return
    owners = {name: node.labels.get(NODE_LABEL, "") for name, node in scene.nodes.items()}
    settled = {owner for owner in owners.values() if owner}
    for pod in scene.pods:
        node = pod.view.node
        if not pod.bound or node not in owners or _of_the_node(pod):
            continue
        if pod.tenant in settled and owners[node] != pod.tenant:
            own = ", ".join(sorted(name for name, owner in owners.items() if owner == pod.tenant))
            whose = f", which belongs to tenant {owners[node]}" if owners[node] else ""
            what = f"{pod.title} runs on {node}{whose}, and not on its tenant's own nodes ({own})"
        elif owners[node] and owners[node] != pod.tenant:
            what = f"{pod.title} runs on {node}, which belongs to tenant {owners[node]} alone"
        else:
            continue
        yield breach(f"{pod.view.namespace}/{pod.view.name}", what, (pod.line,))


def within_quota(scene: ClusterState) -> Iterator[Finding]:
    """What a tenant's pods hold is at most its ResourceQuota, vCluster's own pods included."""
    for quota in scene.world.of("ResourceQuota"):
        meta = quota["metadata"]
        labels = labels_of(meta)
        tenant, namespace = labels.get("release", ""), meta.get("namespace", "")
        if labels.get("app") != "vcluster" or not tenant:
            continue
        pods = [pod for pod in scene.pods if pod.view.namespace == namespace and pod.staying]
        for name, most in ((quota.get("spec") or {}).get("hard") or {}).items():
            words, amount = _COUNTED.get(name, ("", None))
            if amount is None:
                continue
            taken = sum(amount(pod) for pod in pods)
            if taken > quantity(most) + 1e-6:
                yield breach(
                    f"{tenant} {name}",
                    f"tenant {tenant} may have {quantity(most):g} {words}, and its pods have {taken:.6g}",
                    (
                        f"ResourceQuota {namespace}/{meta['name']}: {name} {most}",
                        *some([pod for pod in pods if amount(pod)]),
                    ),
                )


def no_host_groups(scene: ClusterState) -> Iterator[Finding]:
    """The host's KAI groups no pods of tenants with a KAI of their own."""
    spaces = {pod.view.namespace: pod.tenant for pod in scene.pods if pod.tenant in scene.own_kai}
    for (namespace, name), group in scene.pod_groups.items():
        if tenant := spaces.get(namespace):
            members = [pod for pod in scene.pods if (pod.view.namespace, pod.view.pod_group) == (namespace, name)]
            yield breach(
                f"{namespace}/{name}",
                f"the host's KAI has made PodGroup {name} in {namespace}, whose tenant {tenant} has a KAI of its own",
                (f"PodGroup {namespace}/{name}: queue {group.queue}", *some(members)),
            )


def own_groups(scene: ClusterState) -> Iterator[Finding]:
    """The PodGroup that a copy names is one of the tenant's, not one that the host's KAI wrote over it."""
    for pod in scene.pods:
        side = scene.tenants.get(pod.tenant)
        if pod.tenant not in scene.own_kai or side is None or not side.world.has("PodGroup"):
            continue
        group = pod.view.pod_group
        if group and pod.staying and (pod.synced.namespace, group) not in side.pod_groups:
            hosts = (pod.view.namespace, group) in scene.pod_groups
            whose = "the host's KAI has one of that name" if hosts else "nobody has one of that name"
            yield breach(
                f"{pod.view.namespace}/{pod.view.name}",
                f"{pod.title} names the PodGroup {group}, which its tenant does not have; {whose}",
                (pod.line,),
            )


def _owner(scene: ClusterState, pod: PodInfo) -> str:
    """Whose KAI, or whose scheduler, decides on a pod: a tenant's own, or empty for the host's."""
    return pod.tenant if pod.tenant in scene.own_kai else ""


def _of_the_node(pod: PodInfo) -> bool:
    """Whether a pod belongs to its node, or only follows others there: the host's reservation pods do."""
    if pod.tenant:
        return False
    view = pod.view
    return view.owner.startswith(ON_EVERY_NODE) or view.namespace in SYSTEM_NAMESPACES or pod.is_reservation
