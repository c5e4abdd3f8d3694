"""Reads the GPU map of a cluster once, or follows it by watches."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import TracebackType

from lab.errors import ApiFailed
from lab.gpu.map.build import KINDS, map_of, waiting_inside
from lab.gpu.map.model import GpuMap
from lab.gpu.map.node_query import Ask, lab_nodes
from lab.kai.names import GPU_RESOURCE
from lab.kube import Cluster
from lab.kube.informers import NOT_READ, Cache, Informers, InformerSource
from lab.objects.fields import Obj
from lab.objects.redact import redact
from lab.session.context import LabContext
from lab.snapshot.cluster_snapshot import ClusterSnapshot, take
from lab.snapshot.pod_info import PodInfo

BURST_SECONDS = 0.25
"""Time to collect further changes after the first: those of pods and nodes come together."""

TENANT_SECONDS = 5.0
"""Timeout for a tenant to list its pods, for a map that is read once."""

_HOST = ""
"""Name of the cluster itself among the sources; the others are tenants."""


@dataclass(frozen=True)
class GpuSource:
    """Sources of a map: a cluster, reports of its nodes, and tenants that schedule by themselves."""

    cluster: Cluster
    ask: Ask = lambda names: {}
    tenants: Mapping[str, Cluster] = field(default_factory=dict)
    """Tenants with their own KAI: their waiting pods are not on the host."""

    @classmethod
    def of(cls, ctx: LabContext) -> GpuSource:
        own = [tenant.name for tenant in ctx.spec.tenants if tenant.mode == "own-kai"]
        existing = [name for name in own if ctx.paths.tenant_kubeconfig(name).exists()]
        return cls(ctx.cluster(), lab_nodes(ctx), {name: ctx.tenant(name) for name in existing})

    def read(self) -> GpuMap:
        """Read the map now. Raises ApiFailed if the server does not answer or does not list pods and nodes."""
        snapshot = take(self.cluster, kinds=KINDS)
        if snapshot.absent:
            raise ApiFailed(
                f"the GPU map needs {' and '.join(sorted(snapshot.absent))} objects, which could not be read",
                fix="use a context that may list the nodes, and the pods of all namespaces",
            )
        inside = {name: _pods_of(tenant) for name, tenant in self.tenants.items()}
        # After the API: the kubelet's record must not be older than the pods that are looked up in it.
        return map_of(snapshot, self.ask(_gpu_nodes(snapshot)), inside)


def _pods_of(tenant: Cluster) -> tuple[Obj, ...] | None:
    """The pods inside a tenant, or None if it does not answer."""
    try:
        snapshot = take(tenant, kinds=("Pod",), timeout=TENANT_SECONDS)
    except ApiFailed:
        return None
    return snapshot.of("Pod") if snapshot.has("Pod") else None


def _gpu_nodes(snapshot: ClusterSnapshot) -> list[str]:
    """Nodes that have, or ever had, a device plugin for GPUs."""
    return [node.name for node in snapshot.nodes if GPU_RESOURCE in node.capacity]


class GpuFollow:
    """A context manager; ``next`` returns a new map whenever something about GPUs changed.

    It watches pods and nodes, and the pods inside tenants with their own KAI. It queries nodes again only when a pod
    with GPUs or a node's GPUs changed.
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
        self._inputs: object = None
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
        """Why no changes arrive at the moment; empty if they do."""
        return next((doubt for kind in KINDS if (doubt := self._host.doubt(kind)) not in ("", NOT_READ)), "")

    def next(self, seconds: float) -> GpuMap | None:
        """The next map that differs from the last one, or None without a change within about ``seconds``.

        Raises ApiFailed if the server refuses to list pods or nodes, and Interrupted.
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
        """Handle the next event; False without one within ``seconds``."""
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
        snapshot = ClusterSnapshot(datetime.now(UTC), {kind: self._host.objects(kind) for kind in KINDS})
        # The pods of a tenant that does not answer are outdated; a tenant that has not been read yet is left out.
        inside = {
            name: None if doubt else cache.objects("Pod")
            for name, cache in self._inside.items()
            if (doubt := cache.doubt("Pod")) != NOT_READ
        }
        waiting = [None if pods is None else waiting_inside(name, pods) for name, pods in inside.items()]
        if (inputs := (_gpu_inputs(snapshot), waiting)) == self._inputs:
            return None
        self._inputs = inputs
        last, self._last = self._last, map_of(snapshot, self.source.ask(_gpu_nodes(snapshot)), inside)
        same = last is not None and replace(last, at=self._last.at, others=self._last.others) == self._last
        return None if same else self._last


def _gpu_inputs(snapshot: ClusterSnapshot) -> object:
    """Everything in the API that a map depends on; for equal values, nodes have nothing new to report."""
    pods = [pod for pod in map(PodInfo.of, snapshot.of("Pod")) if pod.gpu_role is not None]
    nodes = [
        (node.name, node.ready, node.unschedulable, node.gpus, node.gpu_memory, node.capacity.get(GPU_RESOURCE))
        for node in snapshot.nodes
    ]
    return sorted(pods, key=lambda pod: pod.key), nodes
