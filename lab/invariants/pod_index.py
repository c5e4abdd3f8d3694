"""The pods of one cluster as they are now, found by node and by GPU group without going through all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lab.invariants.cluster_state import PodState
from lab.kube.reflector import key_of
from lab.objects.fields import Obj

Key = tuple[str, str, str]


@dataclass(frozen=True)
class AffectedPods:
    """A part of the cluster: what a change of some pods can have made wrong is there."""

    nodes: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    @classmethod
    def of(cls, pods: Iterable[PodState]) -> AffectedPods:
        """Where these pods are."""
        every = tuple(pods)
        return cls(
            frozenset(pod.view.node for pod in every if pod.view.node),
            frozenset(group for pod in every for group in pod.view.gpu_groups),
        )

    def __bool__(self) -> bool:
        return bool(self.nodes or self.groups)


class PodIndex:
    """Pods by their keys, with two indexes."""

    def __init__(self) -> None:
        self._pods: dict[Key, PodState] = {}
        self._by_node: dict[str, dict[Key, PodState]] = {}
        self._by_group: dict[str, dict[Key, PodState]] = {}

    def __iter__(self) -> Iterator[PodState]:
        return iter(self._pods.values())

    def change(self, obj: Obj, *, gone: bool) -> tuple[PodState, ...]:
        """Take one change in; the pod before and after it when what it holds has changed, else nothing."""
        key = key_of(obj)
        before = self._pods.get(key)
        after = None if gone else PodState.of(obj)
        if before is not None:
            del self._pods[key]
            for index, name in self._places(before):
                index[name].pop(key, None)
        if after is not None:
            self._pods[key] = after
            for index, name in self._places(after):
                index.setdefault(name, {})[key] = after
        if before is not None and after is not None and _holds(before) == _holds(after):
            return ()
        return tuple(pod for pod in (before, after) if pod is not None)

    def corner(self, corner: AffectedPods) -> tuple[PodState, ...]:
        """The pods on these nodes and in these groups."""
        found: dict[Key, PodState] = {}
        for node in corner.nodes:
            found.update(self._by_node.get(node, {}))
        for group in corner.groups:
            found.update(self._by_group.get(group, {}))
        return tuple(found.values())

    def _places(self, pod: PodState) -> Iterator[tuple[dict[str, dict[Key, PodState]], str]]:
        if pod.view.node:
            yield self._by_node, pod.view.node
        for group in pod.view.gpu_groups:
            yield self._by_group, group


def _holds(pod: PodState) -> tuple[object, ...]:
    """What the rules that hold in every state look at."""
    view = pod.view
    return (
        view.node,
        view.ended,
        view.deleting,
        view.gpu_groups,
        view.received_resource_type,
        pod.gpu_uuid,
        pod.gpus_told,
    )
