"""Rules on queues: limits hold up to the root, and only leaves take workloads (KAI's plugin proportion)."""

from __future__ import annotations

from collections.abc import Iterator

from lab.findings import Finding
from lab.invariants.cluster_state import ClusterState
from lab.invariants.gpus import some
from lab.invariants.model import breach
from lab.objects.kai import QueueView
from lab.snapshot.pod_info import PodInfo
from lab.text import count

UNLIMITED = -1.0
MEGABYTE = 1_000_000
"""The unit of memory in queues, whatever KAI's source calls it (pkg/scheduler/plugins/proportion)."""


def within_limit(state: ClusterState) -> Iterator[Finding]:
    """The pods of a queue and of all queues below it hold at most its limit."""
    memory = {name: node.gpu_memory for name, node in state.nodes.items()}
    members: dict[str, list[PodInfo]] = {}
    for leaf, pods in _workloads(state):
        for name in _up(state, leaf):
            # KAI does not count pods that are being deleted (pod_status.AllocatedStatus).
            members.setdefault(name, []).extend(pod for pod in pods if pod.staying)
    for name, pods in members.items():
        queue = state.queues[name]
        for word, unit, part, taken in (
            ("GPUs", "", queue.gpu, sum(pod.gpus(memory.get(pod.view.node)) for pod in pods)),
            ("cpu", "m", queue.cpu, sum(pod.requests.cpu for pod in pods)),
            ("memory", " MB", queue.memory, sum(pod.requests.memory for pod in pods) / MEGABYTE),
        ):
            if part.limit != UNLIMITED and taken > part.limit + 1e-6:
                held = f"{taken:.6g}{unit} {word.removesuffix('s') if taken == 1 else word}"
                yield breach(
                    f"{name} {word}",
                    f"the pods of queue {name} hold {held}, and its limit is {part.limit:g}{unit}",
                    (_tree(queue), *some(pods)),
                )


def leaves_only(state: ClusterState) -> Iterator[Finding]:
    """A queue with bound pods exists and has no children."""
    parents = {queue.parent for queue in state.queues.values()}
    for name, pods in _workloads(state):
        staying = [pod for pod in pods if pod.staying]
        if staying and name not in state.queues:
            what = f"{count(len(staying), 'pod')} in queue {name!r}, which does not exist"
            yield breach(name or "(none)", what, some(staying))
        elif staying and name in parents:
            below = sorted(queue.name for queue in state.queues.values() if queue.parent == name)
            what = f"{count(len(staying), 'pod')} in queue {name}, which is the parent of {', '.join(below)}"
            yield breach(name, what, some(staying))


def _workloads(state: ClusterState) -> list[tuple[str, list[PodInfo]]]:
    """Each queue with its bound pods, by their PodGroups; another rule is about pods without one."""
    found: dict[str, list[PodInfo]] = {}
    for pod in state.pods:
        if pod.bound and state.mine(pod) and not pod.is_reservation:
            group = state.pod_groups.get((pod.view.namespace, pod.view.pod_group))
            if group is not None:
                found.setdefault(group.queue, []).append(pod)
    return list(found.items())


def _up(state: ClusterState, name: str) -> list[str]:
    """A queue and its existing ancestors."""
    chain: list[str] = []
    while name in state.queues and name not in chain:
        chain.append(name)
        name = state.queues[name].parent
    return chain


def _tree(queue: QueueView) -> str:
    parts = (("gpu", queue.gpu), ("cpu", queue.cpu), ("memory", queue.memory))
    limits = ", ".join(f"{word} {part.limit:g}" for word, part in parts)
    parent = f", parent {queue.parent}" if queue.parent else ""
    return f"queue {queue.name}{parent}: limits {limits}"
