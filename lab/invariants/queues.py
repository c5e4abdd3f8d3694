"""Rules on queues: limits hold up to the root, and only leaves take workloads (KAI's plugin proportion)."""

from __future__ import annotations

from collections.abc import Iterator

from lab.findings import Finding
from lab.invariants.cluster_state import ClusterState
from lab.invariants.gpus import some
from lab.invariants.model import breach
from lab.objects.kai import QueueShare, QueueView
from lab.snapshot.pod_info import PodInfo

UNLIMITED = -1.0
MEGABYTE = 1_000_000
"""Queues count memory in these, whatever KAI's source calls them (pkg/scheduler/plugins/proportion)."""


def within_limit(scene: ClusterState) -> Iterator[Finding]:
    """The pods of a queue and of all queues below it hold at most its limit."""
    members: dict[str, list[PodInfo]] = {}
    for leaf, pods in _workloads(scene):
        for name in _up(scene, leaf):
            # KAI no longer counts pods that it has told to go (pod_status.AllocatedStatus).
            members.setdefault(name, []).extend(pod for pod in pods if pod.staying)
    for name, pods in members.items():
        queue = scene.queues[name]
        for word, unit, part, taken in (
            ("GPUs", "", queue.gpu, sum(pod.gpus(scene.gpu_memory_of(pod.view.node)) for pod in pods)),
            ("cpu", "m", queue.cpu, sum(pod.requests.cpu for pod in pods)),
            ("memory", " MB", queue.memory, sum(pod.requests.memory for pod in pods) / MEGABYTE),
        ):
            if _over(part, taken):
                yield breach(
                    f"{name} {word}",
                    f"queue {name} may have {part.limit:g}{unit} {word}, and its pods have {taken:.6g}{unit}",
                    (_tree(queue), *some(pods)),
                )


def leaves_only(scene: ClusterState) -> Iterator[Finding]:
    """A queue with bound pods exists, and is nobody's parent."""
    parents = {queue.parent for queue in scene.queues.values()}
    for name, pods in _workloads(scene):
        staying = [pod for pod in pods if pod.staying]
        if staying and name not in scene.queues:
            yield breach(
                name or "(none)", f"{len(staying)} pods run in queue {name!r}, which does not exist", some(staying)
            )
        elif staying and name in parents:
            below = sorted(queue.name for queue in scene.queues.values() if queue.parent == name)
            yield breach(
                name,
                f"{len(staying)} pods run in queue {name}, which is the parent of {', '.join(below)}",
                some(staying),
            )


def _workloads(scene: ClusterState) -> list[tuple[str, list[PodInfo]]]:
    """Each queue with its bound pods, by their PodGroups; pods without one are another rule's business."""
    found: dict[str, list[PodInfo]] = {}
    for pod in scene.pods:
        if pod.bound and scene.mine(pod) and not pod.is_reservation:
            group = scene.pod_groups.get((pod.view.namespace, pod.view.pod_group))
            if group is not None:
                found.setdefault(group.queue, []).append(pod)
    return list(found.items())


def _up(scene: ClusterState, name: str) -> list[str]:
    """A queue and its ancestors that exist."""
    chain: list[str] = []
    while name in scene.queues and name not in chain:
        chain.append(name)
        name = scene.queues[name].parent
    return chain


def _over(part: QueueShare, taken: float) -> bool:
    return part.limit != UNLIMITED and taken > part.limit + 1e-6


def _tree(queue: QueueView) -> str:
    parts = (("gpu", queue.gpu), ("cpu", queue.cpu), ("memory", queue.memory))
    limits = ", ".join(f"{word} {part.limit:g}" for word, part in parts)
    parent = f", parent {queue.parent}" if queue.parent else ""
    return f"queue {queue.name}{parent}: limits {limits}"
