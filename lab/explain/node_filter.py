"""Why each node does not take a pod: obstacles by kind, from the objects alone."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from lab.explain.pod_context import PodContext
from lab.explain.selectors import node_matches, tolerated
from lab.kai.names import GPU_RESOURCE
from lab.objects.fields import parts
from lab.snapshot.gpu_allocation import portion
from lab.snapshot.node_info import NodeInfo

# In the order in which they are told. The first group is what a node is, the second what state it is in.
BY_NATURE = ("selector", "pool", "gpus", "devices", "gpu-memory-label", "gpu-memory", "cpu", "memory", "resource")
BY_STATE = (
    "taint",
    "cordoned",
    "not-ready",
    "gpus-taken",
    "share-taken",
    "cpu-taken",
    "memory-taken",
    "resource-taken",
)

LAST = ("control-plane",)
"""Nodes that are not for workloads are to blame only where there are no others."""
NO_GPUS = "no-gpus"
"""Never to blame: that a CPU node has no GPU says nothing."""

_CONTROL = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_HEALTH = {
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
}
"""Taints that the node controller sets by the node's conditions."""
_CORDON = "node.kubernetes.io/unschedulable"
_BAD = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


_UNITS = {"cpu": ("cpu", "m cpu", 1.0, ".0f"), "memory": ("memory", " MiB memory", 2.0**20, ".0f")}
"""Resource → kind of obstacle, unit, what one unit is, and format; every other resource counts as it is."""


@dataclass(frozen=True)
class Obstacle:
    """One thing that keeps a pod off a node."""

    kind: str
    text: str


@dataclass(frozen=True)
class NodeFit:
    """A node and what keeps the pod off it; none means that it would fit."""

    node: str
    obstacles: tuple[Obstacle, ...]

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(o.kind for o in self.obstacles)

    @property
    def line(self) -> str:
        return f"node {self.node}: {'; '.join(o.text for o in self.obstacles) or 'would fit'}"


@functools.lru_cache(maxsize=4)
def fits(case: PodContext) -> tuple[NodeFit, ...]:
    """Every node with its obstacles."""
    return tuple(NodeFit(info.node.name, tuple(_obstacles(case, info))) for info in case.node_infos)


def decisive(found: Sequence[NodeFit]) -> dict[str, tuple[NodeFit, ...]]:
    """The kinds that, if they alone were cured, would let the pod onto a node; with those nodes.

    Where a node would do by its nature, its state is to blame: that others are too small says nothing while one
    that is large enough is cordoned. Empty when a node would fit, or when every node has several obstacles.
    """
    if not found or any(not fit.obstacles for fit in found):
        return {}
    able = [fit for fit in found if not fit.kinds & {NO_GPUS, *BY_NATURE}]
    workers = [fit for fit in able if not fit.kinds & {*LAST}]
    group = BY_STATE if workers else LAST if able else BY_NATURE
    kinds = {kind: tuple(fit for fit in found if fit.kinds == {kind}) for kind in group}
    return {kind: nodes for kind, nodes in kinds.items() if nodes}


def _obstacles(case: PodContext, info: NodeInfo) -> list[Obstacle]:
    found = [*_selection(case, info), *_gpus(case, info), *_amounts(case, info), *_state(case, info)]
    order = {kind: number for number, kind in enumerate((NO_GPUS, *LAST, *BY_NATURE, *BY_STATE))}
    return sorted(found, key=lambda obstacle: order[obstacle.kind])


def _selection(case: PodContext, info: NodeInfo) -> list[Obstacle]:
    found = []
    spec = parts(case.pod_obj)[1]
    if why := node_matches(spec, info.node):
        found.append(Obstacle("selector", why))
    if case.by_kai and case.kai is not None and (key := case.kai.pool_key):
        pool = info.node.labels.get(key, "")
        if pool not in case.kai.pools:
            found.append(Obstacle("pool", f"in node pool {pool} ({key}), which no scheduler serves"))
    return found


def _gpus(case: PodContext, info: NodeInfo) -> list[Obstacle]:
    needs, node = case.needs, info.node
    if needs.shares_gpu:
        return _share(case, info)
    if not needs.gpus:
        return []
    if not info.capacity_gpus:
        return [Obstacle(NO_GPUS, "has no GPUs")]
    if needs.gpus > node.gpus:
        sick = f", {info.capacity_gpus - node.gpus} unhealthy" if info.capacity_gpus > node.gpus else ""
        return [Obstacle("gpus", f"has {node.gpus} GPUs{sick}, the pod wants {needs.gpus}")]
    if needs.gpus > info.gpus_free:
        return [Obstacle("gpus-taken", f"{info.gpus_free} of {node.gpus} GPUs free, the pod wants {needs.gpus}")]
    return []


def _share(case: PodContext, info: NodeInfo) -> list[Obstacle]:
    needs, node = case.needs, info.node
    if not node.gpus:
        return [Obstacle(NO_GPUS, "has no GPUs")]
    if needs.devices > node.gpus:
        return [Obstacle("devices", f"has {node.gpus} GPUs, the pod wants a part of {needs.devices}")]
    if needs.gpu_memory is not None:
        if info.gpu_memory is None:
            return [Obstacle("gpu-memory-label", "no label nvidia.com/gpu.memory tells its GPUs' memory")]
        if needs.gpu_memory > info.gpu_memory:
            return [Obstacle("gpu-memory", f"its GPUs have {info.gpu_memory} MiB, the pod wants {needs.gpu_memory}")]
    part = needs.fraction if needs.fraction is not None else portion(needs.gpu_memory or 0, info.node.gpu_memory)
    fitting = sum(gpu.free + 1e-9 >= part for gpu in info.shared) + info.gpus_free
    if fitting >= needs.devices:
        return []
    best = max((gpu.free for gpu in info.shared), default=0.0)
    return [
        Obstacle(
            "share-taken",
            f"{fitting} GPUs with {part:g} free, the pod wants {needs.devices}"
            f" ({info.gpus_free} whole free; most that is left of a shared one: {best:g})",
        )
    ]


def _amounts(case: PodContext, info: NodeInfo) -> list[Obstacle]:
    found = []
    for name, want in case.needs.amounts.items():
        if name == GPU_RESOURCE or not want:
            continue
        kind, unit, factor, digits = _UNITS.get(name, ("resource", f" {name}", 1.0, "g"))
        have, free = info.allocatable.get(name, 0.0), info.free(name)
        wanted = f"the pod wants {want / factor:{digits}}"
        if want > have:
            found.append(Obstacle(kind, f"has {have / factor:{digits}}{unit}, {wanted}"))
        elif want > free:
            found.append(Obstacle(f"{kind}-taken", f"{free / factor:{digits}}{unit} free, {wanted}"))
    return found


def _state(case: PodContext, info: NodeInfo) -> list[Obstacle]:
    node = info.node
    tolerations = parts(case.pod_obj)[1].get("tolerations") or []
    found = []
    for taint in node.taints:
        key = taint.partition(":")[0].partition("=")[0]
        if key in _HEALTH or key == _CORDON or taint.endswith(":PreferNoSchedule") or tolerated(taint, tolerations):
            continue
        found.append(Obstacle("control-plane" if key in _CONTROL else "taint", f"taint {taint}"))
    if node.unschedulable:
        found.append(Obstacle("cordoned", "cordoned"))
    bad = [c.type for c in node.conditions if c.type in _BAD and c.status == "True"]
    if not node.ready or bad:
        words = [*([] if node.ready else ["not Ready"]), *bad]
        found.append(Obstacle("not-ready", ", ".join(words)))
    return found
