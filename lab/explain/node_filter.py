"""Why each node rejects a pod: obstacles by kind, from the objects alone."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.explain.pod_context import PodContext
from lab.explain.selectors import node_mismatch, tolerated
from lab.kai.names import GPU_RESOURCE
from lab.snapshot.gpu_allocation import portion
from lab.snapshot.node_info import NodeInfo
from lab.text import count

NO_GPUS = "no-gpus"
"""Never a reason: a CPU node without GPUs is normal."""
CONTROL_PLANE = "control-plane"
"""Only a reason if no other nodes exist."""
BY_NATURE = ("selector", "gpus", "devices", "gpu-memory-label", "gpu-memory", "cpu", "memory", "resource")
"""Obstacles from what a node is, in the order of output."""
BY_STATE = (
    "pool",
    "restricted",
    "taint",
    "cordoned",
    "not-ready",
    "gpus-taken",
    "share-taken",
    "cpu-taken",
    "memory-taken",
    "resource-taken",
)
"""Obstacles from a node's current state."""
_ORDER = (NO_GPUS, CONTROL_PLANE, *BY_NATURE, *BY_STATE)

_CONTROL_PLANE_TAINTS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_CONDITION_TAINTS = {
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/unschedulable",
}
"""Taints that the node controller sets from the node's conditions, and for a cordoned node."""
GPU_WORKER, CPU_WORKER = "node-role.kubernetes.io/gpu-worker", "node-role.kubernetes.io/cpu-worker"
"""With --restrict-node-scheduling pods with and without GPUs need nodes with these labels (KAI 0.16.8, predicates.go);
the scheduler does not see nodes without either (cluster_info.go)."""
_PRESSURE = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")

_UNITS = {"cpu": ("cpu", "m cpu", 1.0, ".0f"), "memory": ("memory", " MiB memory", 2.0**20, ".0f")}
"""Resource → kind of obstacle, unit, factor and format; other resources have no unit."""


@dataclass(frozen=True)
class Obstacle:
    """One reason for which a node rejects a pod."""

    kind: str
    text: str


@dataclass(frozen=True)
class NodeFit:
    """A node and its obstacles; without obstacles the pod fits."""

    node: str
    obstacles: tuple[Obstacle, ...]

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(o.kind for o in self.obstacles)

    @property
    def text(self) -> str:
        return "; ".join(o.text for o in self.obstacles)

    @property
    def line(self) -> str:
        return f"node {self.node}: {self.text or 'would fit'}"


@functools.lru_cache(maxsize=4)
def fits(ctx: PodContext) -> tuple[NodeFit, ...]:
    """Return every node with its obstacles."""
    return tuple(
        NodeFit(info.node.name, tuple(sorted(_obstacles(ctx, info), key=lambda one: _ORDER.index(one.kind))))
        for info in ctx.node_infos
    )


def decisive(found: Sequence[NodeFit]) -> dict[str, tuple[NodeFit, ...]]:
    """Return the kinds of obstacles that alone keep the pod off a node, with those nodes.

    If a node fits by its nature, its state is the reason: that other nodes are too small does not matter while a
    large enough one is cordoned. Empty if a node fits, or if every node has several obstacles.
    """
    if not found or any(not fit.obstacles for fit in found):
        return {}
    able = [fit for fit in found if not fit.kinds & {NO_GPUS, *BY_NATURE}]
    workers = [fit for fit in able if CONTROL_PLANE not in fit.kinds]
    group = BY_STATE if workers else (CONTROL_PLANE,) if able else BY_NATURE
    kinds = {kind: tuple(fit for fit in found if fit.kinds == {kind}) for kind in group}
    return {kind: nodes for kind, nodes in kinds.items() if nodes}


def _obstacles(ctx: PodContext, info: NodeInfo) -> Iterator[Obstacle]:
    if why := node_mismatch(ctx.spec, info.node):
        yield Obstacle("selector", why)
    if ctx.by_kai and ctx.kai is not None:
        key = ctx.kai.pool_key
        pool = info.node.labels.get(key, "")
        if key and pool not in ctx.kai.pools:
            yield Obstacle("pool", f"in node pool {pool} ({key}), which no scheduler serves")
        label = GPU_WORKER if ctx.requests.wants_gpu else CPU_WORKER
        if ctx.kai.restricted and label not in info.node.labels:
            yield Obstacle("restricted", f"not labelled {label}")
    gpus = _share(ctx, info) if ctx.requests.shares_gpu else _whole_gpus(ctx, info)
    if gpus is not None:
        yield gpus
    yield from _amounts(ctx, info)
    yield from _state(ctx, info)


def _whole_gpus(ctx: PodContext, info: NodeInfo) -> Obstacle | None:
    wanted, gpus = ctx.requests.gpus, info.node.gpus
    if not wanted:
        return None
    if not info.capacity_gpus:
        return Obstacle(NO_GPUS, "has no GPUs")
    if wanted > gpus:
        unhealthy = f", {info.capacity_gpus - gpus} unhealthy" if info.capacity_gpus > gpus else ""
        return Obstacle("gpus", f"has {count(gpus, 'GPU')}{unhealthy}, the pod wants {wanted}")
    if wanted > info.gpus_free:
        return Obstacle("gpus-taken", f"{info.gpus_free} of {gpus} GPUs free, the pod wants {wanted}")
    return None


def _share(ctx: PodContext, info: NodeInfo) -> Obstacle | None:
    wanted, gpus = ctx.requests, info.node.gpus
    if not gpus:
        return Obstacle(NO_GPUS, "has no GPUs")
    if wanted.devices > gpus:
        return Obstacle("devices", f"has {count(gpus, 'GPU')}, the pod wants a part of {wanted.devices}")
    if wanted.gpu_memory is not None:
        if info.gpu_memory is None:
            return Obstacle("gpu-memory-label", "has no label nvidia.com/gpu.memory with the memory of its GPUs")
        if wanted.gpu_memory > info.gpu_memory:
            return Obstacle("gpu-memory", f"its GPUs have {info.gpu_memory} MiB, the pod wants {wanted.gpu_memory}")
    part = wanted.fraction if wanted.fraction is not None else portion(wanted.gpu_memory or 0, info.node.gpu_memory)
    fitting = sum(gpu.free + 1e-9 >= part for gpu in info.shared) + info.gpus_free
    if fitting >= wanted.devices:
        return None
    largest = max((gpu.free for gpu in info.shared), default=0.0)
    return Obstacle(
        "share-taken",
        f"{fitting} GPUs with {part:g} free, the pod wants {wanted.devices}"
        f" ({info.gpus_free} whole free; largest free part of a shared one: {largest:g})",
    )


def _amounts(ctx: PodContext, info: NodeInfo) -> Iterator[Obstacle]:
    for name, amount in ctx.requests.amounts.items():
        if name == GPU_RESOURCE or not amount:
            continue
        kind, unit, factor, digits = _UNITS.get(name, ("resource", f" {name}", 1.0, "g"))
        allocatable, free = info.allocatable.get(name, 0.0), info.free(name)
        wanted = f"the pod wants {amount / factor:{digits}}"
        if amount > allocatable:
            yield Obstacle(kind, f"has {allocatable / factor:{digits}}{unit}, {wanted}")
        elif amount > free:
            yield Obstacle(f"{kind}-taken", f"{free / factor:{digits}}{unit} free, {wanted}")


def _state(ctx: PodContext, info: NodeInfo) -> Iterator[Obstacle]:
    node, tolerations = info.node, ctx.spec.get("tolerations") or []
    for taint in node.taints:
        key = taint.partition(":")[0].partition("=")[0]
        ignored = key in _CONDITION_TAINTS or taint.endswith(":PreferNoSchedule")
        if not ignored and not tolerated(taint, tolerations):
            yield Obstacle(CONTROL_PLANE if key in _CONTROL_PLANE_TAINTS else "taint", f"taint {taint}")
    if node.unschedulable:
        yield Obstacle("cordoned", "cordoned")
    pressure = [c.type for c in node.conditions if c.type in _PRESSURE and c.status == "True"]
    if not node.ready or pressure:
        yield Obstacle("not-ready", ", ".join([*([] if node.ready else ["not Ready"]), *pressure]))
