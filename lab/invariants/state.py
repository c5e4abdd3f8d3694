"""Keeps the state of one cluster, and of what its tenants see, from the news of their watches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from lab.invariants.cluster_state import ClusterState, PodState, tenants_with_kai
from lab.invariants.model import Invariant
from lab.invariants.pod_index import AffectedPods, PodIndex
from lab.kube.informers import InformerEvent
from lab.kube.reflector import key_of
from lab.objects.fields import Obj
from lab.objects.node import NodeView
from lab.objects.redact import redact
from lab.snapshot.capture import slim
from lab.snapshot.cluster_snapshot import ClusterSnapshot

HOST = ""
"""Name of the cluster itself among its sides; the others are tenants."""

UNREAD = "has not been read yet"
ABSENT = "the server does not have it"


class ClusterStore:
    """The objects that one API server shows."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self.pods = PodIndex()
        self.nodes: dict[str, NodeView] = {}
        self._objects: dict[str, dict[tuple[str, str, str], Obj]] = {kind: {} for kind in kinds}
        self._frozen: dict[str, tuple[Obj, ...]] = {}
        self._doubts: dict[str, str] = dict.fromkeys(self._objects, UNREAD)
        self._answered: set[str] = set()

    def take(self, news: InformerEvent) -> list[PodState]:
        """Take news in; the pods that hold something else than before, as they were and as they are."""
        kind = news.kind
        if news.refused or news.absent or news.trouble:
            # After trouble what is known grows old: nothing is judged by it until the watch goes on.
            self._doubts[kind] = news.refused or news.trouble or ABSENT
            if not news.trouble:
                self._answered.add(kind)
            return []
        self._answered.add(kind)
        self._doubts.pop(kind, None)
        self._frozen.pop(kind, None)
        moved: list[PodState] = []
        for change, raw in news.changes:
            obj = redact(slim(raw))
            gone = change == "DELETED"
            if gone:
                self._objects[kind].pop(key_of(obj), None)
            else:
                self._objects[kind][key_of(obj)] = obj
            if kind == "Pod":
                moved += self.pods.change(obj, gone=gone)
            elif kind == "Node":
                self._node(obj, gone=gone)
        return moved

    def doubt(self, kind: str) -> str:
        """Why nothing can be said of a kind; empty when it can."""
        return self._doubts.get(kind, "")

    @property
    def read(self) -> bool:
        """Whether something is known of every kind, be it that the server does not have it."""
        return self._answered >= self._objects.keys()

    def world(self, at: datetime) -> ClusterSnapshot:
        """All of it."""
        for kind, objects in self._objects.items():
            if kind not in self._frozen:
                self._frozen[kind] = tuple(objects.values())
        known = {kind: objs for kind, objs in self._frozen.items() if kind not in self._doubts}
        return ClusterSnapshot(at=at, objects=known, absent=frozenset(self._doubts))

    def _node(self, obj: Obj, *, gone: bool) -> None:
        view = NodeView.of(obj)
        if gone:
            self.nodes.pop(view.name, None)
        else:
            self.nodes[view.name] = view


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
        return all(side.read for side in self.sides.values())

    def scene(self, at: datetime) -> ClusterState:
        """Everything."""
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
            ClusterSnapshot(at=at), host.pods.corner(corner), host.nodes, own_kai=self._own_kai, inside=self._inside
        )


def _union(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(kind for group in groups for kind in group))
