"""Reads the map of GPUs of a cluster once, or follows it by watches."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType

from lab.errors import ApiFailed
from lab.gpu.map.build import KINDS, map_of
from lab.gpu.map.model import GpuMap
from lab.gpu.map.node_query import Ask, lab_nodes, nobody
from lab.gpu.map.pods import sort_pods, waiting_inside
from lab.kube import Cluster
from lab.kube.reflector import Change, Reflector, key_of
from lab.objects.fields import Obj, parts
from lab.objects.redact import redact
from lab.objects.views import GPU_RESOURCE, NodeView
from lab.session.context import LabContext
from lab.snapshot.cluster_snapshot import ClusterSnapshot, take

STEP = 0.25
"""Seconds that one set is waited for before the other is looked at; changes of both come at once."""


ASK_SECONDS = 5.0
"""How long a tenant may take to list its pods, for a map that is read once."""


@dataclass(frozen=True)
class GpuSource:
    """Where a map comes from: a cluster, whom to ask which GPU is whose, and tenants that schedule by themselves."""

    cluster: Cluster
    ask: Ask = nobody
    tenants: Mapping[str, Cluster] = field(default_factory=dict)
    """Those with a KAI of their own: what waits inside is not on the host."""

    @classmethod
    def of(cls, ctx: LabContext) -> GpuSource:
        """The source of a lab."""
        own = [tenant.name for tenant in ctx.spec.tenants if tenant.mode == "own-kai"]
        there = [name for name in own if ctx.paths.tenant_kubeconfig(name).exists()]
        return cls(ctx.cluster(), lab_nodes(ctx), {name: ctx.tenant(name) for name in there})

    def read(self) -> GpuMap:
        """The map now.

        Raises:
            ApiFailed: the server does not answer, or does not let us list pods and nodes.
        """
        world = take(self.cluster, kinds=KINDS)
        if world.absent:
            raise ApiFailed(
                f"the map of GPUs needs {' and '.join(sorted(world.absent))} objects, which could not be read",
                fix="take a context that may list the nodes, and the pods of all namespaces",
            )
        inside = {name: _pods_of(tenant) for name, tenant in self.tenants.items()}
        # After the API: the kubelet's record must not be older than the pods that are looked up in it.
        return map_of(world, self.ask(gpu_node_names(world)), inside)


def _pods_of(tenant: Cluster) -> tuple[Obj, ...] | None:
    """The pods inside a tenant, or None where it does not answer."""
    try:
        world = take(tenant, kinds=("Pod",), timeout=ASK_SECONDS)
    except ApiFailed:
        return None
    return world.of("Pod") if world.has("Pod") else None


def gpu_node_names(world: ClusterSnapshot) -> list[str]:
    """Nodes that have, or ever had, a device plugin for GPUs."""
    return [NodeView.of(obj).name for obj in world.of("Node") if GPU_RESOURCE in (parts(obj)[2].get("capacity") or {})]


@dataclass
class GpuFollow:
    """A context manager; ``next`` gives a new map whenever something about GPUs changed.

    Fed by watches of pods and nodes, and of the pods inside tenants with a KAI of their own. Nodes are asked again only
    when a pod with GPUs, or what a node offers, has changed.
    """

    source: GpuSource
    _sets: dict[str, dict[tuple[str, str, str], Obj]] = field(default_factory=dict)
    _followers: dict[str, Reflector] = field(default_factory=dict)
    _inner: dict[str, Reflector] = field(default_factory=dict)
    _inside: dict[str, dict[tuple[str, str, str], Obj]] = field(default_factory=dict)
    _silent: set[str] = field(default_factory=set)
    _refused: set[str] = field(default_factory=set)
    _seen: object = None
    _last: GpuMap | None = None

    def __enter__(self) -> GpuFollow:
        cluster = self.source.cluster
        with contextlib.ExitStack() as stack:
            for kind in KINDS:
                follower = Reflector(cluster.calls, cluster.kinds.named(kind), None, {})
                self._followers[kind] = stack.enter_context(follower)
            for name, tenant in self.source.tenants.items():
                follower = Reflector(tenant.calls, tenant.kinds.named("Pod"), None, {})
                self._inner[name] = stack.enter_context(follower)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def trouble(self) -> str:
        """Why no changes come at the moment; empty when all is well."""
        found = next((f.trouble for f in self._followers.values() if f.trouble is not None), None)
        return str(found).splitlines()[0] if found else ""

    def next(self, seconds: float) -> GpuMap | None:
        """The next map that differs from the last one, or None when none came within about ``seconds``.

        Raises:
            ApiFailed: the server refuses to list pods or nodes.
            Interrupted: the run was cancelled.
        """
        tries = max(1, round(seconds / (STEP * len(KINDS))))
        for _ in range(tries):
            # All at once: while both sets are silent this takes STEP for each.
            changed = [self._take(kind) for kind in KINDS]
            changed += [self._look_inside(name) for name in self._inner]
            if any(changed) and len(self._sets) == len(KINDS) and (found := self._map()) is not None:
                return found
        return None

    def _take(self, kind: str) -> bool:
        """Take in what has come of one kind; whether anything has."""
        batch = self._followers[kind].take(STEP)
        came = batch is not None
        while batch is not None:
            self._apply(kind, batch)
            batch = self._followers[kind].take(0.0)
        return came

    def _apply(self, kind: str, batch: list[Change]) -> None:
        _enter(self._sets.setdefault(kind, {}), batch)

    def _look_inside(self, name: str) -> bool:
        """Take in what has come from a tenant, without waiting; whether anything is new."""
        follower, was, came = self._inner[name], name in self._silent, False
        try:
            while (batch := follower.take(0.0)) is not None:
                _enter(self._inside.setdefault(name, {}), batch)
                came = True
        except ApiFailed:
            self._refused.add(name)  # its follower has ended
        if follower.trouble is not None or name in self._refused:
            self._silent.add(name)
        else:
            self._silent.discard(name)
        return came or was != (name in self._silent)

    def _map(self) -> GpuMap | None:
        """A new map, unless it shows the same as the last one."""
        world = ClusterSnapshot(datetime.now(UTC), {kind: tuple(objs.values()) for kind, objs in self._sets.items()})
        inside: dict[str, tuple[Obj, ...] | None] = {name: tuple(pods.values()) for name, pods in self._inside.items()}
        inside |= dict.fromkeys(sorted(self._silent))  # what is known of them grows old
        waiting = [None if pods is None else waiting_inside(name, pods) for name, pods in inside.items()]
        if (seen := (_matters(world), waiting)) == self._seen:
            return None
        self._seen = seen
        found = map_of(world, self.source.ask(gpu_node_names(world)), inside)
        same = self._last is not None and (found.nodes, found.waiting, found.notes) == (
            self._last.nodes,
            self._last.waiting,
            self._last.notes,
        )
        self._last = found
        return None if same else found


def _enter(known: dict[tuple[str, str, str], Obj], batch: list[Change]) -> None:
    for change, obj in batch:
        if change == "DELETED":
            known.pop(key_of(obj), None)
        else:
            known[key_of(obj)] = redact(obj)


def _matters(world: ClusterSnapshot) -> object:
    """What a map depends on; equal values mean that no node has anything new to tell."""
    pods = sort_pods(world.of("Pod"))
    nodes = [
        (n, (parts(obj)[2].get("capacity") or {}).get(GPU_RESOURCE))
        for obj in world.of("Node")
        for n in [NodeView.of(obj)]
    ]
    return (
        pods,
        [(node.name, node.ready, node.unschedulable, node.gpus, node.gpu_memory, capacity) for node, capacity in nodes],
    )
