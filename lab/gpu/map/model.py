"""The map of GPUs: node → GPU → reservation pod → pods, and what is free, whole, shared or over-committed.

Plain frozen data: made by ``gpu_map_build``, drawn by the faces, stored in reports.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

NEARLY = 1e-6
"""Shares are sums of decimal fractions."""


def short(uuid: str) -> str:
    """The beginning of a UUID, enough to tell GPUs of a lab apart: ``GPU-1b4e28ba``."""
    return uuid[:12]


class GpuState(enum.Enum):
    """What a GPU is to somebody who looks for room; the value is the word for it."""

    FREE = "free"
    SHARED = "shared"
    WHOLE = "whole"
    OVER = "over-committed"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True)
class Holder:
    """A pod on a GPU, named as its owner sees it."""

    namespace: str
    name: str
    tenant: str
    """The vCluster it comes from; empty on the host."""
    queue: str
    asked: str
    """In words: ``1 GPU``, ``0.5``, ``4096 MiB``."""
    share: float | None
    """Part of this GPU; None where memory was asked for and the GPU's memory is not known."""
    phase: str
    uid: str
    node: str = ""
    on_host: str = ""
    """``namespace/name`` on the host."""

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class WaitingPod:
    """A pod that wants GPUs and has no node; ``why`` is the scheduler's last word."""

    namespace: str
    name: str
    tenant: str
    queue: str
    asked: str
    gpus: float | None
    """GPUs it wants in total; None where it asks for memory."""
    why: str
    uid: str

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Gpu:
    """One GPU of a node."""

    node: str
    index: int | None
    """As NVML counts; None where only the node could tell."""
    uuid: str
    """Empty where only the node could tell."""
    model: str
    memory: int | None
    """MiB."""
    offered: bool = True
    """Whether the node offers it to pods."""
    trouble: str = ""
    reservations: tuple[str, ...] = ()
    """KAI's reservation pods on it, as ``namespace/name`` on the host: one when it is shared."""
    reserved_by: tuple[str, ...] = ()
    """The same as their owners see them: ``gpu-reservation-x``, ``gpu-reservation-y of tenant ml``."""
    group: str = ""
    """KAI's name for it while it is shared."""
    holders: tuple[Holder, ...] = ()
    claims: int = 0
    """Pods that the device plugin gave it to: reservation pods and whole-GPU pods."""
    replicas: int = 1
    """To how many pods the device plugin may give it (time-slicing)."""

    @property
    def title(self) -> str:
        """``GPU 0 of NODE (GPU-1b4e28ba)``, as far as it is known."""
        number = "a GPU" if self.index is None else f"GPU {self.index}"
        return f"{number} of {self.node}" + (f" ({short(self.uuid)})" if self.uuid else "")

    @property
    def used(self) -> float:
        """Part that is given away; more than 1 when over-committed."""
        return round(sum(holder.share or 0.0 for holder in self.holders), 6)

    @property
    def free(self) -> float:
        """Part that a pod could still get."""
        if self.state in (GpuState.WHOLE, GpuState.OVER, GpuState.UNHEALTHY):
            return 0.0
        return max(0.0, round(1.0 - self.used, 6))

    @property
    def state(self) -> GpuState:
        """What it is to somebody who looks for room."""
        if self.used > 1 + NEARLY or self.claims > self.replicas:
            return GpuState.OVER
        if not self.offered:
            return GpuState.UNHEALTHY
        if self.reservations or self.replicas > 1:
            return GpuState.SHARED if self.holders or self.reservations else GpuState.FREE
        return GpuState.WHOLE if self.holders else GpuState.FREE


@dataclass(frozen=True)
class NodeGpus:
    """A node and its GPUs."""

    name: str
    ready: bool
    cordoned: bool
    model: str
    memory: int | None
    """MiB of one GPU."""
    capacity: int
    allocatable: int
    gpus: tuple[Gpu, ...]
    unplaced: tuple[Holder, ...] = ()
    """Pods bound to this node whose GPU nobody has told yet."""
    withheld: int = 0
    """GPUs that the node does not offer, and which ones is not known."""
    tenant: str = ""
    """The tenant that has this node alone; empty: anybody may use it."""

    @property
    def free(self) -> float:
        """Largest share of a GPU that a pod could get here; none on a node that takes no pods.

        Pods whose GPU nobody has told yet are taken to have the emptiest ones.
        """
        if not self.ready or self.cordoned:
            return 0.0
        shares = sorted((gpu.free for gpu in self.gpus), reverse=True)
        return max(shares[len(self.unplaced) + self.withheld :], default=0.0)


@dataclass(frozen=True)
class GpuMap:
    """All GPUs of a cluster at one moment."""

    at: str
    """When, ISO 8601 in UTC."""
    nodes: tuple[NodeGpus, ...] = ()
    """Those that have GPUs, by name."""
    waiting: tuple[WaitingPod, ...] = ()
    others: int = 0
    """Nodes without GPUs."""
    notes: tuple[str, ...] = ()
    """What contradicts itself or could not be asked, a sentence each."""

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return tuple(gpu for node in self.nodes for gpu in node.gpus)

    @property
    def holders(self) -> Iterator[tuple[Holder, Gpu | None]]:
        """Every pod with a GPU of its own or a share, once for each GPU; None where that is not known yet."""
        for node in self.nodes:
            yield from ((holder, gpu) for gpu in node.gpus for holder in gpu.holders)
            yield from ((holder, None) for holder in node.unplaced)

    def count(self, state: GpuState) -> int:
        """How many GPUs are in a state; what a node withholds is not free, whichever GPU it is."""
        found = sum(gpu.state is state for gpu in self.gpus)
        withheld = sum(node.withheld for node in self.nodes)
        return {GpuState.UNHEALTHY: found + withheld, GpuState.FREE: max(0, found - withheld)}.get(state, found)

    @property
    def largest_free(self) -> float:
        """The largest share of one GPU that a pod could get."""
        return max((node.free for node in self.nodes), default=0.0)

    def as_json(self) -> dict[str, Any]:
        counts = {state.name.lower(): self.count(state) for state in GpuState}
        return {
            "at": self.at,
            "summary": {
                "nodes": len(self.nodes),
                "nodes_without_gpus": self.others,
                "gpus": len(self.gpus),
                **counts,
                "largest_free_share": self.largest_free,
                "waiting": len(self.waiting),
            },
            "nodes": [_node_json(node) for node in self.nodes],
            "waiting": [asdict(pod) for pod in self.waiting],
            "notes": list(self.notes),
        }


def _node_json(node: NodeGpus) -> dict[str, Any]:
    return {
        "name": node.name,
        "ready": node.ready,
        "cordoned": node.cordoned,
        "model": node.model,
        "memory_mib": node.memory,
        "capacity": node.capacity,
        "allocatable": node.allocatable,
        "withheld": node.withheld,
        "tenant": node.tenant,
        "gpus": [_gpu_json(gpu) for gpu in node.gpus],
        "unplaced": [asdict(holder) for holder in node.unplaced],
    }


def _gpu_json(gpu: Gpu) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "model": gpu.model,
        "memory_mib": gpu.memory,
        "state": gpu.state.value,
        "used": gpu.used,
        "free": gpu.free,
        "offered": gpu.offered,
        "trouble": gpu.trouble,
        "reservations": list(gpu.reservations),
        "reserved_by": list(gpu.reserved_by),
        "gpu_group": gpu.group,
        "pods": [asdict(holder) for holder in gpu.holders],
    }
