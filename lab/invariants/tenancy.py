"""Rules on tenants: a vCluster shows only its own objects."""

from __future__ import annotations

from collections.abc import Iterator

from lab.findings import Finding
from lab.invariants.cluster_state import ClusterState
from lab.invariants.gpus import lines
from lab.invariants.model import breach


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
            yield breach(f"{tenant} Pod", f"tenant {tenant} sees {len(held)} reservation pods of the host", lines(held))
        for kind in ("Queue", "PodGroup"):
            seen = [str(obj["metadata"]["name"]) for obj in inner.snapshot.of(kind)]
            if seen:
                yield breach(
                    f"{tenant} {kind}",
                    f"tenant {tenant} sees {len(seen)} {kind} objects",
                    tuple(f"{kind} {name}" for name in sorted(seen)[:8]),
                )
