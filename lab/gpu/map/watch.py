"""Reads the map of GPUs of a cluster once, or follows it by watches."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType

from lab.errors import ApiFailed
from lab.gpu.map.build import KINDS, map_of
from lab.gpu.map.model import GpuMap
from lab.gpu.map.node_query import Ask, lab_nodes, nobody
from lab.gpu.map.pods import waiting_inside
from lab.kai.names import GPU_RESOURCE
from lab.kube import Cluster
from lab.kube.informers import NOT_READ, Cache, Informers, InformerSource
from lab.objects.fields import Obj
from lab.objects.redact import redact
from lab.session.context import LabContext
from lab.snapshot.cluster_snapshot import ClusterSnapshot, take
from lab.snapshot.pod_info import PodInfo

BURST_SECONDS = 0.25
"""How long further changes are collected after the first: those of pods and nodes come together."""

ASK_SECONDS = 5.0
"""How long a tenant may take to list its pods, for a map that is read once."""

_HOST = ""
"""Name of the cluster itself among what is followed; the others are tenants."""


@dataclass(frozen=True)
class GpuSource:
    """Where a map comes from: a cluster, whom to ask which GPU is whose, and tenants that schedule by themselves."""

    cluster: Cluster
    ask: Ask = nobody
    tenants: Mapping[str, Cluster] = field(default_factory=dict)
    """Those with a KAI of their own: what waits inside is not on the host."""

    @classmethod
    def of(cls, ctx: LabContext) -> GpuSource:
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
    return [node.name for node in world.nodes if GPU_RESOURCE in node.capacity]


class GpuFollow:
    """A context manager; ``next`` gives a new map whenever something about GPUs changed.

    Fed by watches of pods and nodes, and of the pods inside tenants with a KAI of their own. Nodes are asked again only
    when a pod with GPUs, or what a node offers, has changed.
    """

    def __init__(self, source: GpuSource) -> None:
        self.source = source
        self._host = Cache(KINDS, redact)
        self._inside = {name: Cache(("Pod",), redact) for name in source.tenants}
        self._informers = Informers(
            [
                InformerSource(_HOST, source.cluster, KINDS),
                *(InformerSource(name, tenant, ("Pod",)) for name, tenant in source.tenants.items()),
            ]
        )
        self._seen: object = None
        self._last: GpuMap | None = None

    def __enter__(self) -> GpuFollow:
        self._informers.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._informers.__exit__(kind, error, trace)

    @property
    def trouble(self) -> str:
        """Why no changes come at the moment; empty when all is well."""
        return next((doubt for kind in KINDS if (doubt := self._host.doubt(kind)) not in ("", NOT_READ)), "")

    def next(self, seconds: float) -> GpuMap | None:
        """The next map that differs from the last one, or None when none came within about ``seconds``.

        Raises:
            ApiFailed: the server refuses to list pods or nodes.
            Interrupted: the run was cancelled.
        """
        end = time.monotonic() + seconds
        while self._take(end - time.monotonic()):
            burst = time.monotonic() + BURST_SECONDS
            while self._take(burst - time.monotonic()):
                pass
            if self._host.synced and (found := self._map()) is not None:
                return found
            if time.monotonic() >= end:
                break
        return None

    def _take(self, seconds: float) -> bool:
        """Take in what comes next; False when nothing did within ``seconds``."""
        event = self._informers.take(seconds)
        if event is None:
            return False
        if event.source != _HOST:
            self._inside[event.source].update(event)
            return True
        if event.error is not None:
            raise event.error
        self._host.update(event)
        return True

    def _map(self) -> GpuMap | None:
        """A new map, unless it shows the same as the last one."""
        world = ClusterSnapshot(datetime.now(UTC), {kind: self._host.objects(kind) for kind in KINDS})
        # What is known of a tenant that does not answer grows old; one that has not been read yet is left out.
        inside = {
            name: None if doubt else cache.objects("Pod")
            for name, cache in self._inside.items()
            if (doubt := cache.doubt("Pod")) != NOT_READ
        }
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


def _matters(world: ClusterSnapshot) -> object:
    """What a map depends on; equal values mean that no node has anything new to tell."""
    pods = [pod for pod in map(PodInfo.of, world.of("Pod")) if pod.gpu_role is not None]
    nodes = [
        (node.name, node.ready, node.unschedulable, node.gpus, node.gpu_memory, node.capacity.get(GPU_RESOURCE))
        for node in world.nodes
    ]
    return sorted(pods, key=lambda pod: pod.key), nodes
