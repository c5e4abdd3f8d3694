"""What is free on each node, as schedulers count it: cpu, memory, pods, whole GPUs, and parts of shared GPUs."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from lab.kai.names import GPU_RESOURCE
from lab.objects.fields import Obj, parts
from lab.objects.kai import quantity
from lab.objects.node import NodeView
from lab.objects.pod import PodView
from lab.objects.pod_requests import PodRequests
from lab.snapshot.cluster_snapshot import ClusterSnapshot

UNKNOWN_MEMORY = 100
"""MiB that KAI takes for a GPU whose memory no label tells (node_info.go, DefaultGpuMemory)."""


@dataclass(frozen=True)
class SharedGpu:
    """A GPU that fractions share."""

    group: str
    """KAI's name for it; the label of its pods and of its reservation pod."""
    uuid: str
    """Empty while no reservation pod has told."""
    reservation: str
    """Name of its reservation pod; empty: there is none."""
    used: float
    """Sum of the fractions on it."""
    pods: tuple[str, ...]
    """``namespace/name`` of the pods on it."""

    @property
    def free(self) -> float:
        """What is left of it."""
        return max(0.0, round(1.0 - self.used, 4))


@dataclass(frozen=True)
class NodeInfo:
    """A node with what its pods have asked for."""

    node: NodeView
    capacity_gpus: int
    """GPUs that the node has; more than are allocatable when some are unhealthy."""
    cpu: float
    """Allocatable millicores."""
    cpu_used: float
    memory: float
    """Allocatable bytes."""
    memory_used: float
    pods: int
    """How many pods it takes."""
    pods_used: int
    gpus_used: int
    """Whole GPUs: those of pods, and those that reservation pods hold for fractions."""
    shared: tuple[SharedGpu, ...]
    holders: tuple[tuple[str, int], ...]
    """Pod as ``namespace/name``, and its whole GPUs; without reservation pods."""
    others: Mapping[str, tuple[float, float]]
    """Other resource → allocatable and used."""

    @property
    def gpus_free(self) -> int:
        """GPUs that nobody holds."""
        return max(0, self.node.gpus - self.gpus_used)

    @property
    def gpu_memory(self) -> int | None:
        """MiB of one GPU as KAI counts, rounded down to hundreds; None where no label tells."""
        told = self.node.gpu_memory
        return None if told is None else told - told % 100

    def portion_of(self, mib: int) -> float:
        """The part of one of its GPUs that ``mib`` MiB are, rounded up to hundredths as KAI does."""
        return math.ceil(100 * mib / (self.gpu_memory or UNKNOWN_MEMORY)) / 100


@functools.lru_cache(maxsize=4)
def rooms(world: ClusterSnapshot) -> tuple[NodeInfo, ...]:
    """All nodes by name. A pod that KAI has decided on and not bound yet counts on the node it was given."""
    chosen = {(request.namespace, request.pod): request for request in world.bind_requests}
    placed: dict[str, list[tuple[Obj, PodView, tuple[str, ...]]]] = {}
    for obj, pod in zip(world.of("Pod"), world.pods, strict=True):
        request = chosen.get((pod.namespace, pod.name))
        where = pod.node or (request.node if request else "")
        groups = pod.gpu_groups or (request.gpu_groups if request else ())
        if where and not pod.ended:
            placed.setdefault(where, []).append((obj, pod, groups))
    nodes = sorted(zip(world.of("Node"), world.nodes, strict=True), key=lambda pair: pair[1].name)
    return tuple(_room(obj, view, placed.get(view.name, []), world) for obj, view in nodes)


def _room(
    obj: Obj, node: NodeView, placed: list[tuple[Obj, PodView, tuple[str, ...]]], world: ClusterSnapshot
) -> NodeInfo:
    _, _, status = parts(obj)
    allocatable = {name: _number(value) for name, value in (status.get("allocatable") or {}).items()}
    reserving = {(r.namespace, r.name) for r in world.reservations}
    used: dict[str, float] = {}
    gpus, holders, sharers = 0, [], []
    for raw, pod, groups in placed:
        needs = PodRequests.of(raw)
        used["cpu"] = used.get("cpu", 0.0) + needs.cpu
        used["memory"] = used.get("memory", 0.0) + needs.memory
        for name, amount in {**needs.others, **needs.mig}.items():
            used[name] = used.get(name, 0.0) + amount
        gpus += needs.gpus
        if (pod.namespace, pod.name) in reserving:
            continue
        if needs.gpus:
            holders.append((f"{pod.namespace}/{pod.name}", needs.gpus))
        if groups:
            sharers.append((pod, needs, groups))
    capacity = status.get("capacity") or {}
    room = NodeInfo(
        node=node,
        capacity_gpus=int(_number(capacity.get(GPU_RESOURCE, node.gpus))),
        cpu=allocatable.get("cpu", 0.0) * 1000,
        cpu_used=used.pop("cpu", 0.0),
        memory=allocatable.get("memory", 0.0),
        memory_used=used.pop("memory", 0.0),
        pods=int(allocatable.get("pods", 0)),
        pods_used=len(placed),
        gpus_used=gpus,
        shared=(),
        holders=tuple(sorted(holders)),
        others={
            name: (allocatable.get(name, 0.0), used.get(name, 0.0))
            for name in sorted({*allocatable, *used} - {"cpu", "memory", "pods", GPU_RESOURCE})
        },
    )
    shared = _shared(room, sharers, world)
    # Between the scheduler's decision and the reservation pod, nobody holds the GPU yet.
    unheld = sum(not gpu.reservation for gpu in shared)
    return NodeInfo(**{**vars(room), "shared": shared, "gpus_used": gpus + unheld})


def _shared(
    room: NodeInfo, sharers: list[tuple[PodView, PodRequests, tuple[str, ...]]], world: ClusterSnapshot
) -> tuple[SharedGpu, ...]:
    used: dict[str, float] = {}
    names: dict[str, list[str]] = {}
    for pod, needs, groups in sharers:
        part = needs.fraction
        if part is None:
            part = room.portion_of(needs.gpu_memory) if needs.gpu_memory is not None else 0.0
        for group in groups:
            used[group] = used.get(group, 0.0) + part
            names.setdefault(group, []).append(f"{pod.namespace}/{pod.name}")
    holding = {
        r.gpu_group: r
        for r in world.reservations
        if r.node == room.node.name and r.gpu_group and r.phase not in ("Succeeded", "Failed")
    }
    return tuple(
        SharedGpu(
            group=group,
            uuid=holding[group].gpu_uuid if group in holding else "",
            reservation=holding[group].name if group in holding else "",
            used=round(used.get(group, 0.0), 4),
            pods=tuple(sorted(names.get(group, []))),
        )
        for group in sorted({*used, *holding})
    )


def _number(value: object) -> float:
    try:
        return quantity(value)
    except (ValueError, ArithmeticError):
        return 0.0
