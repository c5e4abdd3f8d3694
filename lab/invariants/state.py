"""Keeps the state of one cluster, and of what its tenants see, from the news of their watches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from lab.invariants.cluster_state import ClusterState, tenants_with_kai
from lab.invariants.model import Invariant
from lab.kube.informers import Cache, InformerEvent
from lab.kube.store import Store
from lab.objects.redact import redact
from lab.objects.views import NodeView
from lab.snapshot.capture import slim
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.pod_info import PodInfo

HOST = ""
"""Name of the cluster itself among its sides; the others are tenants."""


@dataclass(frozen=True)
class AffectedPods:
    """A part of the cluster: what a change of some pods can have made wrong is there."""

    nodes: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    @classmethod
    def of(cls, pods: Iterable[PodInfo]) -> AffectedPods:
        every = tuple(pods)
        return cls(
            frozenset(pod.view.node for pod in every if pod.view.node),
            frozenset(group for pod in every for group in pod.view.gpu_groups),
        )

    def __bool__(self) -> bool:
        return bool(self.nodes or self.groups)


class ClusterStore(Cache):
    """The objects that one API server shows, and its pods as the rules see them."""

    def __init__(self, kinds: Iterable[str]) -> None:
        super().__init__(kinds, lambda obj: redact(slim(obj)))
        self._kinds = tuple(kinds)
        self.nodes: dict[str, NodeView] = {}
        self.pods = Store(
            PodInfo.of,
            {"node": lambda pod: (pod.view.node,) if pod.view.node else (), "group": lambda pod: pod.view.gpu_groups},
        )

    def take(self, event: InformerEvent) -> list[PodInfo]:
        """Take an event in; the pods that hold something else than before, as they were and as they are."""
        moved: list[PodInfo] = []
        for change in self.update(event):
            if event.kind == "Pod":
                before, after = self.pods.update(change)
                if before is None or after is None or _holds(before) != _holds(after):
                    moved += [pod for pod in (before, after) if pod is not None]
            elif event.kind == "Node":
                view = NodeView.of(change[1])
                if change[0] == "DELETED":
                    self.nodes.pop(view.name, None)
                else:
                    self.nodes[view.name] = view
        return moved

    def affected(self, part: AffectedPods) -> tuple[PodInfo, ...]:
        """The pods on these nodes and in these groups."""
        places = [*(("node", node) for node in part.nodes), *(("group", group) for group in part.groups)]
        return tuple({key: pod for place in places for key, pod in self.pods.by_index(*place).items()}.values())

    def world(self, at: datetime) -> ClusterSnapshot:
        known = {kind: self.objects(kind) for kind in self._kinds if not self.doubt(kind)}
        return ClusterSnapshot(at=at, objects=known, absent=frozenset(self._kinds) - known.keys())


class StateStore:
    """One cluster with its tenants.

    Args:
        invariants: what is to be judged; their needs are what is followed.
        tenants: names of the tenants whose APIs are followed too.
        own_kai: tenants known to have a KAI of their own; others are recognised by their KAI's pods.
        inside: the cluster is a tenant's own.
    """

    def __init__(
        self,
        invariants: Iterable[Invariant],
        tenants: Iterable[str] = (),
        own_kai: Iterable[str] = (),
        *,
        inside: bool = False,
    ) -> None:
        every = tuple(invariants)
        self.kinds = _union(invariant.needs for invariant in every)
        self.tenant_kinds = _union(invariant.tenant_needs for invariant in every)
        self.sides: Mapping[str, ClusterStore] = {
            HOST: ClusterStore(self.kinds),
            **{name: ClusterStore(self.tenant_kinds) for name in tenants},
        }
        self._own_kai = frozenset(own_kai)
        self._inside = inside

    def take(self, side: str, news: InformerEvent) -> AffectedPods:
        """Take news of one side in; where pods of the cluster itself hold something else than before."""
        moved = self.sides[side].take(news)
        if side != HOST:
            return AffectedPods()
        # Once seen they stay: while a tenant's KAI is upgraded, its pods are still its own.
        self._own_kai |= tenants_with_kai(moved)
        return AffectedPods.of(moved)

    def why_not(self, invariant: Invariant) -> str:
        """Why an invariant cannot be judged now; empty when it can."""
        host = self.sides[HOST]
        for kind in invariant.needs:
            if doubt := host.doubt(kind):
                return f"{kind}: {doubt}"
        if not invariant.tenant_needs:
            return ""
        tenants = [name for name in self.sides if name != HOST]
        if not tenants:
            return "no tenant is named"
        # CRDs of KAI are not expected in a tenant; its pods are.
        return next((f"tenant {t}: Pod: {d}" for t in tenants if (d := self.sides[t].doubt("Pod"))), "")

    @property
    def read(self) -> bool:
        """Whether every side has answered on every kind."""
        return all(side.synced for side in self.sides.values())

    def scene(self, at: datetime) -> ClusterState:
        host = self.sides[HOST]
        return ClusterState(
            world=host.world(at),
            pods=tuple(host.pods),
            nodes=dict(host.nodes),
            tenants={
                name: ClusterState(world=side.world(at), pods=tuple(side.pods))
                for name, side in self.sides.items()
                if name != HOST
            },
            own_kai=self._own_kai,
            inside=self._inside,
        )

    def corner(self, corner: AffectedPods, at: datetime) -> ClusterState:
        """The pods of a part of the cluster, with all nodes and no other objects."""
        host = self.sides[HOST]
        return ClusterState(
            ClusterSnapshot(at=at), host.affected(corner), host.nodes, own_kai=self._own_kai, inside=self._inside
        )


def _union(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(kind for group in groups for kind in group))


def _holds(pod: PodInfo) -> tuple[object, ...]:
    """What the rules that hold in every state look at."""
    view = pod.view
    return (
        view.node,
        view.ended,
        view.deleting,
        view.gpu_groups,
        view.received_resource_type,
        view.reserved_gpu,
        pod.reported_gpus,
    )
