"""Rules on GPUs: nobody is promised what somebody else has. All of them hold in every state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lab.findings import Finding
from lab.invariants.cluster_state import ClusterState
from lab.invariants.model import breach
from lab.snapshot.gpu_allocation import SharedGpu, counted_memory
from lab.snapshot.pod_info import PodInfo
from lab.text import count

SHOWN = 12
"""Pods in the evidence where they may be many; the sums are of all."""


def slack(device: SharedGpu) -> float:
    """By how much of a GPU the shares may exceed 1 with KAI's arithmetic in order.

    KAI cuts the node's memory to hundreds of MiB and each share to whole MiB, so each may be 1 MiB more than it
    counted (pkg/scheduler/api/node_info: getNodeGpuMemory, GetResourceGpuMemory; KAI 0.7.11 to 0.17.0).
    """
    return len(device.users) / counted_memory(device.memory) + 1e-9


def fractions(scene: ClusterState) -> Iterator[Finding]:
    """The shares of a GPU add up to at most 1; where all ask for MiB it is for ``memory`` to judge."""
    for device in scene.gpus.shared:
        if all(pod.requests.fraction is None for pod in device.users):
            continue
        shares = [pod.share(device.memory) or 0.0 for pod in device.users]
        total = sum(shares)
        if total > 1 + slack(device):
            words = " + ".join(f"{part:.4g}" for part in shares)
            yield breach(
                f"{device.node} {device.name}",
                f"{device.title} is shared out {total:.4g} times ({words})",
                lines(device.users),
            )


def memory(scene: ClusterState) -> Iterator[Finding]:
    """The memory promised of a GPU is at most what it has; where all ask for fractions, those say the same."""
    for device in scene.gpus.shared:
        there = device.memory
        if not there or all(pod.requests.fraction is not None for pod in device.users):
            continue
        parts = [
            pod.requests.gpu_memory or 0 if pod.requests.fraction is None else int(pod.requests.fraction * there)
            for pod in device.users
        ]
        if sum(parts) > there + len(parts):  # a MiB for each pod, see ``slack``
            words = " + ".join(map(str, parts))
            yield breach(
                f"{device.node} {device.name}",
                f"{device.title} has {there} MiB, and {sum(parts)} MiB are promised ({words})",
                lines(device.users),
            )


def exclusive(scene: ClusterState) -> Iterator[Finding]:
    """Pods with GPUs of their own, and reservation pods, take at most the GPUs that a node has."""
    holders: dict[str, list[PodInfo]] = {}
    for pod in scene.pods:
        if pod.bound and pod.requests.gpus:
            holders.setdefault(pod.view.node, []).append(pod)
    for node, pods in holders.items():
        there, taken = scene.gpus_of(node), sum(pod.requests.gpus for pod in pods)
        if there and taken > there:
            yield breach(node, f"node {node} has {there} GPUs, and {taken} are given away", lines(pods))


def held_once(scene: ClusterState) -> Iterator[Finding]:
    """No two reservation pods hold the same GPU."""
    holders: dict[tuple[str, str], dict[str, PodInfo]] = {}
    for pods in scene.gpus.reservations.values():
        for pod in pods:
            if pod.view.reserved_gpu:
                # Real GPUs are seen by all nodes of a kind cluster alike: the node belongs to the key.
                holders.setdefault((pod.view.node, pod.view.reserved_gpu), {})[pod.view.uid] = pod
    for (node, uuid), found in holders.items():
        if len(found) > 1:
            yield breach(
                f"{node} {uuid}",
                f"GPU {uuid} of {node} is held by {len(found)} reservation pods",
                lines(found.values()),
            )


def received(scene: ClusterState) -> Iterator[Finding]:
    """A bound pod got what it asked for: shares as Fraction in a GPU group each, all else as Regular in none.

    KAI's binder writes both onto the pod before it binds it (pkg/binder/binding/binder.go).
    """
    for pod in scene.pods:
        view, needs = pod.view, pod.requests
        if not pod.bound or not scene.mine(pod) or pod.is_reservation or needs.mig:
            continue
        wanted = ("Fraction", needs.devices) if needs.shares_gpu else ("Regular", 0)
        got = (view.received_resource_type, len(view.gpu_groups))
        if got != wanted:
            yield breach(
                f"{view.namespace}/{view.name}",
                f"{pod.title} was to get {in_words(*wanted)}, and got {in_words(*got)}",
                (pod.line,),
            )


def lines(pods: Iterable[PodInfo]) -> tuple[str, ...]:
    """The evidence: the pods in their order of names."""
    return tuple(sorted(pod.line for pod in pods))


def some(pods: Iterable[PodInfo]) -> tuple[str, ...]:
    """The evidence where pods may be many: the first of them, and how many more there are."""
    every = lines(pods)
    return (*every[:SHOWN], f"… and {len(every) - SHOWN} more") if len(every) > SHOWN else every


def in_words(kind: str, groups: int) -> str:
    """A received resource type with its GPU groups."""
    return f"{kind or 'nothing'} in {count(groups, 'GPU group')}"
