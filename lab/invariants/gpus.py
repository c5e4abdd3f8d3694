"""Rules on GPUs, none of which is given to two pods. All of them hold in every state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lab.findings import Finding
from lab.invariants.cluster_state import ClusterState
from lab.invariants.model import breach
from lab.snapshot.gpu_allocation import SharedGpu, counted_memory
from lab.snapshot.pod_info import PodInfo
from lab.text import count

SHOWN = 12
"""Maximum of pods in evidence with many."""

UNUSED = "used by no pod"
"""In evidence: a reservation pod, and no pod that is bound belongs to its GPU group."""


def slack(device: SharedGpu) -> float:
    """By how much the shares of a GPU may exceed 1 because of KAI's rounding.

    KAI rounds the node's memory down to hundreds of MiB and each share down to MiB, so each may be up to 1 MiB more
    than KAI counts (pkg/scheduler/api/node_info: getNodeGpuMemory, GetResourceGpuMemory; KAI 0.7.11 to 0.17.0).
    """
    return len(device.users) / counted_memory(device.memory) + 1e-9


def fractions(state: ClusterState) -> Iterator[Finding]:
    """The shares of a GPU add up to at most 1; for MiB alone ``gpu-memory`` applies."""
    for device in state.gpus.shared:
        if all(pod.requests.fraction is None for pod in device.users):
            continue
        shares = [pod.share(device.memory) or 0.0 for pod in device.users]
        total = sum(shares)
        if total > 1 + slack(device):
            words = " + ".join(f"{part:.4g}" for part in shares)
            yield breach(
                f"{device.node} {device.name}",
                f"the shares of {device.title} add up to {total:.4g} GPUs ({words})",
                lines(device.users),
            )


def memory(state: ClusterState) -> Iterator[Finding]:
    """The requested memory of a GPU is at most what it has; for fractions alone ``gpu-fractions`` applies."""
    for device in state.gpus.shared:
        total = device.memory
        if not total or all(pod.requests.fraction is not None for pod in device.users):
            continue
        parts = [
            pod.requests.gpu_memory or 0 if pod.requests.fraction is None else int(pod.requests.fraction * total)
            for pod in device.users
        ]
        if sum(parts) > total + len(parts):  # 1 MiB for each pod, see ``slack``
            words = " + ".join(map(str, parts))
            yield breach(
                f"{device.node} {device.name}",
                f"{device.title} has {total} MiB, but its pods request {sum(parts)} MiB ({words})",
                lines(device.users),
            )


def exclusive(state: ClusterState) -> Iterator[Finding]:
    """Pods with whole GPUs, and reservation pods, hold at most the GPUs of their node."""
    holders: dict[str, list[PodInfo]] = {}
    for pod in state.pods:
        if pod.bound and pod.requests.gpus:
            holders.setdefault(pod.view.node, []).append(pod)
    for node, pods in holders.items():
        total, held = state.gpus_of(node), sum(pod.requests.gpus for pod in pods)
        if total and held > total:
            evidence = tuple(sorted(_with_users(pod, state) if pod.is_reservation else pod.line for pod in pods))
            yield breach(node, f"node {node} has {count(total, 'GPU')}, but its pods hold {held}", evidence)


def _with_users(reservation: PodInfo, state: ClusterState) -> str:
    users = ", ".join(pod.key for group in reservation.view.gpu_groups for pod in state.gpus.users.get(group, ()))
    return f"{reservation.line}, {f'used by {users}' if users else UNUSED}"


def held_once(state: ClusterState) -> Iterator[Finding]:
    """No two reservation pods hold the same GPU."""
    holders: dict[tuple[str, str], dict[str, PodInfo]] = {}
    for pods in state.gpus.reservations.values():
        for pod in pods:
            if pod.view.reserved_gpu:
                # All nodes of a kind cluster see the same real GPUs: the node is part of the key.
                holders.setdefault((pod.view.node, pod.view.reserved_gpu), {})[pod.view.uid] = pod
    for (node, uuid), found in holders.items():
        if len(found) > 1:
            yield breach(
                f"{node} {uuid}",
                f"GPU {uuid} of {node} is held by {len(found)} reservation pods",
                lines(found.values()),
            )


def received(state: ClusterState) -> Iterator[Finding]:
    """A bound pod received its request: shares as Fraction in a GPU group each, all else as Regular in no group.

    KAI's binder writes both onto the pod before it binds it (pkg/binder/binding/binder.go).
    """
    for pod in state.pods:
        view, needs = pod.view, pod.requests
        if not pod.bound or not state.mine(pod) or pod.is_reservation or needs.mig:
            continue
        wanted = ("Fraction", needs.devices) if needs.shares_gpu else ("Regular", 0)
        got = (view.received_resource_type, len(view.gpu_groups))
        if got != wanted:
            yield breach(
                pod.key, f"{pod.title} should have received {in_words(*wanted)}, but has {in_words(*got)}", (pod.line,)
            )


def lines(pods: Iterable[PodInfo]) -> tuple[str, ...]:
    """Evidence: the pods in the order of their names."""
    return tuple(sorted(pod.line for pod in pods))


def some(pods: Iterable[PodInfo]) -> tuple[str, ...]:
    """Evidence of possibly many pods: the first of them, and the number of the others."""
    every = lines(pods)
    return (*every[:SHOWN], f"… and {len(every) - SHOWN} more") if len(every) > SHOWN else every


def in_words(kind: str, groups: int) -> str:
    """A received resource type with its GPU groups."""
    return f"{kind or 'nothing'} in {count(groups, 'GPU group')}"
