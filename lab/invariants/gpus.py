"""Rules on GPUs: nobody is promised what somebody else has. All of them hold in every state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lab.invariants.cluster_state import ClusterState, PodState
from lab.invariants.model import Breach
from lab.text import count

HUNDREDTHS = 100
"""The memory that KAI takes for a GPU of a node without the label nvidia.com/gpu.memory."""


SHOWN = 12
"""Pods in the evidence where they may be many; the sums are of all."""


@dataclass(frozen=True)
class ObservedGpu:
    """A GPU that pods share."""

    node: str
    name: str
    """Its UUID, or its GPU group as long as no reservation pod has told the UUID."""
    groups: tuple[str, ...]
    """More than one is wrong in itself (rule held_once), and their shares add up all the same."""
    users: tuple[PodState, ...]

    @property
    def title(self) -> str:
        """How evidence names it."""
        return f"GPU {self.name} of {self.node}"


def devices(scene: ClusterState) -> Iterator[ObservedGpu]:
    """The shared GPUs, each with the bound pods on it."""
    uuids = {(pod.view.node, group): pod.gpu_uuid for group, pods in scene.reservations.items() for pod in pods}
    groups: dict[tuple[str, str], list[str]] = {}
    users: dict[tuple[str, str], dict[str, PodState]] = {}
    for group, pods in scene.users.items():
        for pod in pods:
            node = pod.view.node
            key = node, uuids.get((node, group)) or group
            known = groups.setdefault(key, [])
            if group not in known:
                known.append(group)
            users.setdefault(key, {})[f"{pod.view.uid} {group}"] = pod
    for (node, name), found in users.items():
        yield ObservedGpu(node, name, tuple(groups[node, name]), tuple(found.values()))


def slack(scene: ClusterState, node: str, users: int) -> float:
    """By how much of a GPU the shares may exceed 1 with KAI's arithmetic in order.

    KAI cuts the node's memory to hundreds of MiB and each share to whole MiB, so each may be 1 MiB more than it
    counted (pkg/scheduler/api/node_info: getNodeGpuMemory, GetResourceGpuMemory; KAI 0.7.11 to 0.17.0).
    """
    memory = scene.gpu_memory_of(node)
    return users / ((memory - memory % 100) or HUNDREDTHS) + 1e-9


def fractions(scene: ClusterState) -> Iterator[Breach]:
    """The shares of a GPU add up to at most 1; where all ask for MiB it is for ``memory`` to judge."""
    for device in devices(scene):
        if all(pod.needs.fraction is None for pod in device.users):
            continue
        memory = scene.gpu_memory_of(device.node)
        shares = [share(pod, memory) for pod in device.users]
        total = sum(shares)
        if total > 1 + slack(scene, device.node, len(device.users)):
            words = " + ".join(f"{part:.4g}" for part in shares)
            yield Breach(
                f"{device.node} {device.name}",
                f"{device.title} is shared out {total:.4g} times ({words})",
                lines(device.users),
            )


def memory(scene: ClusterState) -> Iterator[Breach]:
    """The memory promised of a GPU is at most what it has; where all ask for fractions, those say the same."""
    for device in devices(scene):
        there = scene.gpu_memory_of(device.node)
        if not there or all(pod.needs.fraction is not None for pod in device.users):
            continue
        parts = [
            pod.needs.gpu_memory or 0 if pod.needs.fraction is None else int(pod.needs.fraction * there)
            for pod in device.users
        ]
        if sum(parts) > there + len(parts):  # a MiB for each pod, see ``slack``
            words = " + ".join(map(str, parts))
            yield Breach(
                f"{device.node} {device.name}",
                f"{device.title} has {there} MiB, and {sum(parts)} MiB are promised ({words})",
                lines(device.users),
            )


def exclusive(scene: ClusterState) -> Iterator[Breach]:
    """Pods with GPUs of their own, and reservation pods, take at most the GPUs that a node has."""
    holders: dict[str, list[PodState]] = {}
    for pod in scene.pods:
        if pod.bound and pod.needs.gpus:
            holders.setdefault(pod.view.node, []).append(pod)
    for node, pods in holders.items():
        there, taken = scene.gpus_of(node), sum(pod.needs.gpus for pod in pods)
        if there and taken > there:
            yield Breach(node, f"node {node} has {there} GPUs, and {taken} are given away", lines(pods))


def held_once(scene: ClusterState) -> Iterator[Breach]:
    """No two reservation pods hold the same GPU."""
    holders: dict[tuple[str, str], dict[str, PodState]] = {}
    for pods in scene.reservations.values():
        for pod in pods:
            if pod.gpu_uuid:
                # Real GPUs are seen by all nodes of a kind cluster alike: the node belongs to the key.
                holders.setdefault((pod.view.node, pod.gpu_uuid), {})[pod.view.uid] = pod
    for (node, uuid), found in holders.items():
        if len(found) > 1:
            yield Breach(
                f"{node} {uuid}",
                f"GPU {uuid} of {node} is held by {len(found)} reservation pods",
                lines(found.values()),
            )


def received(scene: ClusterState) -> Iterator[Breach]:
    """A bound pod got what it asked for: shares as Fraction in a GPU group each, all else as Regular in none.

    KAI's binder writes both onto the pod before it binds it (pkg/binder/binding/binder.go).
    """
    for pod in scene.pods:
        view, needs = pod.view, pod.needs
        if not pod.bound or not scene.mine(pod) or pod.reservation or needs.mig:
            continue
        wanted = ("Fraction", needs.devices) if needs.shares_gpu else ("Regular", 0)
        got = (view.received_resource_type, len(view.gpu_groups))
        if got != wanted:
            yield Breach(
                f"{view.namespace}/{view.name}",
                f"{pod.title} was to get {in_words(*wanted)}, and got {in_words(*got)}",
                (pod.line,),
            )


def share(pod: PodState, gpu_memory: int) -> float:
    """Part of one GPU that a pod was promised; 0 where the size of the GPU is not known."""
    if pod.needs.fraction is not None:
        return pod.needs.fraction
    return (pod.needs.gpu_memory or 0) / gpu_memory if gpu_memory else 0.0


def lines(pods: Iterable[PodState]) -> tuple[str, ...]:
    """The evidence: the pods in their order of names."""
    return tuple(sorted(pod.line for pod in pods))


def some(pods: Iterable[PodState]) -> tuple[str, ...]:
    """The evidence where pods may be many: the first of them, and how many more there are."""
    every = lines(pods)
    return (*every[:SHOWN], f"… and {len(every) - SHOWN} more") if len(every) > SHOWN else every


def in_words(kind: str, groups: int) -> str:
    """A received resource type with its GPU groups."""
    return f"{kind or 'nothing'} in {count(groups, 'GPU group')}"
