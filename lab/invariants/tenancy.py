"""Rules on tenants: what a vCluster shows is its own."""

from __future__ import annotations

from collections.abc import Iterator

from lab.findings import Finding
from lab.invariants.cluster_state import ClusterState
from lab.invariants.gpus import lines
from lab.invariants.model import breach


def own_pods(scene: ClusterState) -> Iterator[Finding]:
    """Each bound pod that a tenant sees has its copy on the host, made for this tenant and for this pod.

    A pod that a scheduler inside has bound and that never started may have none: the host can refuse it, by a quota.
    """
    copies = [pod for pod in scene.pods if pod.tenant]
    by_uid = {pod.synced.uid: pod for pod in copies}
    by_name = {(pod.tenant, pod.synced.namespace, pod.synced.name): pod for pod in copies}
    for tenant, side in scene.tenants.items():
        for pod in side.pods:
            view = pod.view
            if not pod.staying:
                continue
            copy = by_uid.get(view.uid) or by_name.get((tenant, view.namespace, view.name))
            if copy is None and view.phase == "Pending":
                continue
            if copy is None or copy.tenant != tenant:
                whose = f"the copy belongs to tenant {copy.tenant}" if copy else "the host has no copy of it"
                yield breach(
                    f"{tenant} {view.namespace}/{view.name}",
                    f"tenant {tenant} sees {pod.title}, and {whose}",
                    (f"tenant {tenant}: {pod.line}", *([f"host: {copy.line}"] if copy else [])),
                )


def apart(scene: ClusterState) -> Iterator[Finding]:
    """A namespace of the host holds the pods of one tenant at most."""
    owners: dict[str, dict[str, list[str]]] = {}
    for pod in scene.pods:
        if pod.tenant:
            owners.setdefault(pod.view.namespace, {}).setdefault(pod.tenant, []).append(pod.line)
    for namespace, found in owners.items():
        if len(found) > 1:
            first = tuple(sorted(pods)[0] for pods in found.values())
            yield breach(namespace, f"namespace {namespace} holds pods of tenants {', '.join(sorted(found))}", first)


def no_host_kai(scene: ClusterState) -> Iterator[Finding]:
    """A tenant without a KAI of its own sees neither queues nor PodGroups nor reservation pods."""
    for tenant, side in scene.tenants.items():
        if tenant in scene.own_kai:
            continue
        held = [pod for pod in side.pods if pod.is_reservation]
        if held:
            yield breach(f"{tenant} Pod", f"tenant {tenant} sees {len(held)} reservation pods of the host", lines(held))
        for kind in ("Queue", "PodGroup"):
            seen = [str(obj["metadata"]["name"]) for obj in side.world.of(kind)]
            if seen:
                yield breach(
                    f"{tenant} {kind}",
                    f"tenant {tenant} sees {len(seen)} {kind} objects",
                    tuple(f"{kind} {name}" for name in sorted(seen)[:8]),
                )
