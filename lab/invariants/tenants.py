"""Rules on tenants: their view of the cluster, and the GPUs, nodes, quotas and KAI objects that they share.

A vCluster shows a tenant all GPUs of its nodes as free (vCluster 0.36.1, pkg/controllers/resources/nodes/translate.go),
so that only the pods on the host show conflicts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from lab.findings import Finding
from lab.invariants.cluster_state import ClusterState
from lab.invariants.gpus import lines, some
from lab.invariants.model import breach
from lab.kai import lines as kai_lines
from lab.kai.names import KAI_SCHEDULER
from lab.objects.fields import labels_of, parts, quantity
from lab.objects.isolation_labels import HOST_KAI, HOST_KAI_LABEL, NODE_LABEL
from lab.snapshot.pod_info import PodInfo
from lab.text import count

SYSTEM_NAMESPACES = frozenset({"kube-system", "local-path-storage"})
"""Namespaces of kind itself, whose pods run on any node and request no GPU."""

ON_EVERY_NODE = ("DaemonSet/", "Node/")
"""Owners of pods that belong to a node; Node owns static pods."""

_ROLE = "podgrouper"
"""Role of the pod-grouper in lab/kai/lines, whose namespace selector KAI's Helm values set."""

_COUNTED: dict[str, tuple[str, Callable[[PodInfo], float]]] = {
    "requests.nvidia.com/gpu": ("GPUs", lambda pod: pod.requests.gpus),
    "requests.cpu": ("cpu", lambda pod: pod.requests.cpu / 1000),
    "requests.memory": ("bytes of memory", lambda pod: pod.requests.memory),
    "pods": ("pods", lambda pod: 1),
}


def gpus_apart(state: ClusterState) -> Iterator[Finding]:
    """A GPU belongs to one tenant with its own KAI, or to the host with all other tenants."""
    reported = {
        (_owner(state, pod), pod.view.node, group): pod.view.reserved_gpu
        for group, pods in state.gpus.reservations.items()
        for pod in pods
        if pod.view.reserved_gpu
    }
    by_any = {(node, group): uuid for (_, node, group), uuid in reported.items()}
    found: dict[tuple[str, str], dict[str, dict[str, PodInfo]]] = {}
    for pod in state.pods:
        if not pod.bound:
            continue
        owner, node = _owner(state, pod), pod.view.node
        shared = [reported.get((owner, node, group)) or by_any.get((node, group)) for group in pod.view.gpu_groups]
        for uuid in (*pod.reported_gpus, *([pod.view.reserved_gpu] if pod.is_reservation else []), *shared):
            if uuid:
                found.setdefault((node, uuid), {}).setdefault(owner, {})[pod.view.uid] = pod
    for (node, uuid), owners in found.items():
        if len(owners) > 1:
            names = " and ".join(f"tenant {name}" if name else "the host" for name in sorted(owners))
            yield breach(
                f"{node} {uuid}",
                f"GPU {uuid} of {node} is used by {names}, whose schedulers do not know of each other",
                lines(pod for pods in owners.values() for pod in pods.values()),
            )


def own_nodes(state: ClusterState) -> Iterator[Finding]:
    """A tenant with dedicated nodes runs on these alone, and no other pods with GPUs or for KAI run there.

    Only on the host: inside a tenant its nodes have the label as well, and all pods are its own.
    """
    if state.inside:
        return
    owners = {name: node.labels.get(NODE_LABEL, "") for name, node in state.nodes.items()}
    settled = {owner for owner in owners.values() if owner}
    for pod in state.pods:
        node = pod.view.node
        if not pod.bound or node not in owners or _of_the_node(pod):
            continue
        if pod.tenant in settled and owners[node] != pod.tenant:
            own = ", ".join(sorted(name for name, owner in owners.items() if owner == pod.tenant))
            owner = f", which belongs to tenant {owners[node]}" if owners[node] else ""
            what = f"{pod.title} runs on {node}{owner}, not on its tenant's dedicated nodes ({own})"
        elif owners[node] and owners[node] != pod.tenant and not _was_there(pod):
            what = f"{pod.title} runs on {node}, which is dedicated to tenant {owners[node]}"
        else:
            continue
        yield breach(pod.key, what, (pod.line,))


def within_quota(state: ClusterState) -> Iterator[Finding]:
    """The pods of a tenant, including vCluster's own, hold at most its ResourceQuota."""
    for quota in state.snapshot.of("ResourceQuota"):
        meta = quota["metadata"]
        labels = labels_of(meta)
        tenant, namespace = labels.get("release", ""), meta.get("namespace", "")
        if labels.get("app") != "vcluster" or not tenant:
            continue
        pods = [pod for pod in state.pods if pod.view.namespace == namespace and pod.staying]
        for name, most in ((quota.get("spec") or {}).get("hard") or {}).items():
            words, amount = _COUNTED.get(name, ("", None))
            if amount is None:
                continue
            taken = sum(amount(pod) for pod in pods)
            if taken > quantity(most) + 1e-6:
                yield breach(
                    f"{tenant} {name}",
                    f"the pods of tenant {tenant} hold {taken:.6g} {words}, and its quota is {quantity(most):g}",
                    (
                        f"ResourceQuota {namespace}/{meta['name']}: {name} {most}",
                        *some([pod for pod in pods if amount(pod)]),
                    ),
                )


def host_kai_apart(state: ClusterState) -> Iterator[Finding]:
    """Beside tenants with their own KAI, a KAI on the host leaves their namespaces alone."""
    if state.inside or not state.own_kai:
        return
    label = f"{HOST_KAI_LABEL}={HOST_KAI[HOST_KAI_LABEL]}"
    for obj in state.snapshot.of("Pod"):
        meta, spec, _ = parts(obj)
        if (labels_of(meta).get("app"), meta.get("namespace")) not in _groupers() or "deletionTimestamp" in meta:
            continue
        args = [str(arg) for container in spec.get("containers") or [] for arg in container.get("args") or []]
        if not any(label in arg for arg in args):
            names = ", ".join(sorted(state.own_kai))
            yield breach(
                f"{meta['namespace']}/{meta['name']}",
                f"KAI in namespace {meta['namespace']} handles the pods of all namespaces, but tenants have their own"
                f" KAI: {names}",
                (f"Pod {meta['namespace']}/{meta['name']} lacks the namespace selector {label}",),
            )


@functools.lru_cache(maxsize=1)
def _groupers() -> frozenset[tuple[str, str]]:
    """Label ``app`` and namespace of the pod-grouper's pods in all versions of KAI."""
    roles = ((line, name) for line in kai_lines().values() for name, role in line.deployments.items() if role == _ROLE)
    return frozenset((name, line.namespace) for line, name in roles)


def no_host_groups(state: ClusterState) -> Iterator[Finding]:
    """The host's KAI creates no PodGroups for tenants with their own KAI."""
    spaces = {pod.view.namespace: pod.tenant for pod in state.pods if pod.tenant in state.own_kai}
    for (namespace, name), group in state.pod_groups.items():
        if tenant := spaces.get(namespace):
            members = [pod for pod in state.pods if (pod.view.namespace, pod.view.pod_group) == (namespace, name)]
            yield breach(
                f"{namespace}/{name}",
                f"the host's KAI created PodGroup {name} in {namespace}, but tenant {tenant} has its own KAI",
                (f"PodGroup {namespace}/{name}: queue {group.queue}", *some(members)),
            )


def own_groups(state: ClusterState) -> Iterator[Finding]:
    """The PodGroup that a synced pod names is the tenant's, not one of the host's KAI."""
    for pod in state.pods:
        inner = state.tenants.get(pod.tenant)
        if pod.tenant not in state.own_kai or inner is None or not inner.snapshot.has("PodGroup"):
            continue
        group = pod.view.pod_group
        if group and pod.staying and (pod.synced.namespace, group) not in inner.pod_groups:
            hosts = (pod.view.namespace, group) in state.pod_groups
            owner = "the host's KAI has one of that name" if hosts else "no PodGroup has that name"
            yield breach(
                pod.key, f"{pod.title} names the PodGroup {group}, which its tenant does not have; {owner}", (pod.line,)
            )


def own_pods(state: ClusterState) -> Iterator[Finding]:
    """Each bound pod that a tenant sees has its own copy on the host.

    A bound pod that never started may have no copy: the host can refuse it, for example by a quota.
    """
    copies = [pod for pod in state.pods if pod.tenant]
    by_uid = {pod.synced.uid: pod for pod in copies}
    by_name = {(pod.tenant, pod.synced.namespace, pod.synced.name): pod for pod in copies}
    for tenant, inner in state.tenants.items():
        for pod in inner.pods:
            view = pod.view
            if not pod.staying:
                continue
            copy = by_uid.get(view.uid) or by_name.get((tenant, view.namespace, view.name))
            if copy is None and view.phase == "Pending":
                continue
            if copy is None or copy.tenant != tenant:
                problem = f"its copy belongs to tenant {copy.tenant}" if copy else "the host has no copy of it"
                yield breach(
                    f"{tenant} {view.namespace}/{view.name}",
                    f"tenant {tenant} sees {pod.title}, but {problem}",
                    (f"tenant {tenant}: {pod.line}", *([f"host: {copy.line}"] if copy else [])),
                )


def apart(state: ClusterState) -> Iterator[Finding]:
    """A namespace of the host has pods of at most one tenant."""
    owners: dict[str, dict[str, list[str]]] = {}
    for pod in state.pods:
        if pod.tenant:
            owners.setdefault(pod.view.namespace, {}).setdefault(pod.tenant, []).append(pod.line)
    for namespace, found in owners.items():
        if len(found) > 1:
            first = tuple(sorted(pods)[0] for pods in found.values())
            yield breach(namespace, f"namespace {namespace} has pods of tenants {', '.join(sorted(found))}", first)


def no_host_kai(state: ClusterState) -> Iterator[Finding]:
    """A tenant without its own KAI sees no queues, PodGroups or reservation pods."""
    for tenant, inner in state.tenants.items():
        if tenant in state.own_kai:
            continue
        held = [pod for pod in inner.pods if pod.is_reservation]
        if held:
            yield breach(
                f"{tenant} Pod", f"tenant {tenant} sees {count(len(held), 'reservation pod')} of the host", lines(held)
            )
        for kind in ("Queue", "PodGroup"):
            seen = [str(obj["metadata"]["name"]) for obj in inner.snapshot.of(kind)]
            if seen:
                yield breach(
                    f"{tenant} {kind}",
                    f"tenant {tenant} sees {count(len(seen), f'{kind} object')}",
                    tuple(f"{kind} {name}" for name in sorted(seen)[:8]),
                )


def _owner(state: ClusterState, pod: PodInfo) -> str:
    """The tenant whose scheduler places a pod; empty for the host's."""
    return pod.tenant if pod.tenant in state.own_kai else ""


def _was_there(pod: PodInfo) -> bool:
    """Whether a pod may have been on a node before its tenant: the taint evicts none, and this one takes no GPU."""
    return not pod.tenant and pod.gpu_role is None and pod.view.scheduler_name != KAI_SCHEDULER


def _of_the_node(pod: PodInfo) -> bool:
    """Whether a pod belongs to its node, or follows other pods there like the host's reservation pods."""
    if pod.tenant:
        return False
    view = pod.view
    return view.owner.startswith(ON_EVERY_NODE) or view.namespace in SYSTEM_NAMESPACES or pod.is_reservation
