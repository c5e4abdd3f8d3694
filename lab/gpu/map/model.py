"""The GPU map: node → GPU → reservation pod → pods, and the GPUs that are free, whole, shared or over-committed.

Plain frozen data: ``build`` makes it, terminal and pages draw it, reports store it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypedDict

from lab.snapshot.pod_info import PodInfo
from lab.text import count

NEARLY = 1e-6
"""Shares are sums of decimal fractions."""


def short(uuid: str) -> str:
    """Return the beginning of a UUID, enough to distinguish the GPUs of a lab: ``GPU-1b4e28ba``."""
    return uuid[:12]


def asked(pod: PodInfo) -> str:
    """Describe the GPUs that a pod requests: ``1 GPU``, ``0.5 × 2``, ``4096 MiB``."""
    requests = pod.requests
    times = f" × {requests.devices}" if requests.shares_gpu and requests.devices > 1 else ""
    if requests.fraction is not None:
        return f"{requests.fraction:g}{times}"
    if requests.gpu_memory is not None:
        return f"{requests.gpu_memory} MiB{times}"
    return count(requests.gpus, "GPU")


class GpuState(enum.Enum):
    """State of a GPU for a pod that looks for one; the value is the word for it."""

    FREE = "free"
    SHARED = "shared"
    WHOLE = "whole"
    OVER = "over-committed"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True)
class MapPod:
    """A pod that has or wants GPUs, named as its owner sees it."""

    namespace: str
    name: str
    tenant: str
    """The vCluster it comes from; empty on the host."""
    queue: str
    asked: str
    """Its request: ``1 GPU``, ``0.5``, ``4096 MiB``."""

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"

    @staticmethod
    def identity(pod: PodInfo, tenant: str = "") -> tuple[str, str, str, str, str]:
        """The fields above; ``tenant`` is set for a pod that was read from a tenant's API."""
        return pod.synced.namespace, pod.synced.name, tenant or pod.tenant, pod.view.queue, asked(pod)


@dataclass(frozen=True)
class Holder(MapPod):
    """A pod on a GPU."""

    share: float | None
    """Part of this GPU; None for a request of memory on a GPU of unknown size."""
    phase: str
    uid: str
    node: str = ""
    on_host: str = ""
    """``namespace/name`` on the host."""

    @classmethod
    def of(cls, pod: PodInfo, share: float | None) -> Holder:
        """A pod that has ``share`` of one GPU."""
        view = pod.view
        phase = view.phase
        if view.deleting:
            phase = "Deleting"
        elif phase == "Pending":
            phase = next(iter(view.waiting_reasons), "Starting")
        return cls(*cls.identity(pod), share=share, phase=phase, uid=view.uid, node=view.node, on_host=pod.key)


@dataclass(frozen=True)
class WaitingPod(MapPod):
    """A pod that wants GPUs and has no node; ``why`` is the scheduler's last message."""

    gpus: float | None
    """GPUs it wants in total; None for a request of memory."""
    why: str
    uid: str

    @classmethod
    def of(cls, pod: PodInfo, tenant: str = "") -> WaitingPod:
        requests = pod.requests
        gpus = None if requests.fraction is None and requests.gpu_memory is not None else requests.gpu_total
        found = next((c for c in pod.view.conditions if c.type == "PodScheduled" and c.status == "False"), None)
        why = (found.message or found.reason) if found else ""
        return cls(*cls.identity(pod, tenant), gpus=gpus, why=" ".join(why.split()), uid=pod.view.uid)


@dataclass(frozen=True)
class Gpu:
    """One GPU of a node."""

    node: str
    index: int | None
    """NVML's index; None if the node did not report it."""
    uuid: str
    """Empty if the node did not report it."""
    model: str = ""
    memory: int | None = None
    """MiB."""
    offered: bool = True
    """Whether the node offers it to pods."""
    trouble: str = ""
    reservations: tuple[str, ...] = ()
    """KAI's reservation pods on it, as ``namespace/name`` on the host: one when it is shared."""
    reserved_by: tuple[str, ...] = ()
    """The same as their owners see them: ``gpu-reservation-x``, ``gpu-reservation-y of tenant ml``."""
    group: str = ""
    """Its GPU group while it is shared."""
    holders: tuple[Holder, ...] = ()
    claims: int = 0
    """Pods that the device plugin gave it to: reservation pods and whole-GPU pods."""
    replicas: int = 1
    """Number of pods that the device plugin may give it to (time-slicing)."""

    @property
    def title(self) -> str:
        """``GPU 0 of NODE (GPU-1b4e28ba)``, as far as it is known."""
        number = "a GPU" if self.index is None else f"GPU {self.index}"
        return f"{number} of {self.node}" + (f" ({short(self.uuid)})" if self.uuid else "")

    @property
    def used(self) -> float:
        """The allocated part; more than 1 when over-committed."""
        return round(sum(holder.share or 0.0 for holder in self.holders), 6)

    @property
    def free(self) -> float:
        """The part that a pod could still get."""
        if self.state in (GpuState.WHOLE, GpuState.OVER, GpuState.UNHEALTHY):
            return 0.0
        return max(0.0, round(1.0 - self.used, 6))

    @property
    def state(self) -> GpuState:
        if self.used > 1 + NEARLY or self.claims > self.replicas:
            return GpuState.OVER
        if not self.offered:
            return GpuState.UNHEALTHY
        if self.reservations or self.replicas > 1:
            return GpuState.SHARED if self.holders or self.reservations else GpuState.FREE
        return GpuState.WHOLE if self.holders else GpuState.FREE

    JSON = (
        "index uuid model memory_mib=memory state used free offered trouble reservations reserved_by "
        "gpu_group=group pods=holders"
    )


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
    """Pods bound to this node whose GPU is not known yet."""
    withheld: int = 0
    """GPUs that the node does not offer, without knowing which."""
    tenant: str = ""
    """The tenant that the node is dedicated to; empty: any pod may use it."""

    @property
    def free(self) -> float:
        """Largest share of a GPU that a pod could get here; 0 on a node that takes no pods.

        Pods whose GPU is not known yet count as if they had the emptiest ones.
        """
        if not self.ready or self.cordoned:
            return 0.0
        shares = sorted((gpu.free for gpu in self.gpus), reverse=True)
        return max(shares[len(self.unplaced) + self.withheld :], default=0.0)

    JSON = "name ready cordoned model memory_mib=memory capacity allocatable gpus unplaced withheld tenant"


class GpuSummary(TypedDict):
    """Numbers of nodes, of GPUs by state and of waiting pods, and the largest share of one GPU that a pod could get."""

    nodes: int
    nodes_without_gpus: int
    gpus: int
    free: int
    shared: int
    whole: int
    over: int
    unhealthy: int
    largest_free_share: float
    waiting: int


@dataclass(frozen=True)
class GpuMap:
    """All GPUs of a cluster at one moment."""

    at: str
    """The moment, ISO 8601 in UTC."""
    nodes: tuple[NodeGpus, ...] = ()
    """Nodes with GPUs, by name."""
    waiting: tuple[WaitingPod, ...] = ()
    others: int = 0
    """Number of nodes without GPUs."""
    notes: tuple[str, ...] = ()
    """Contradictions, and sources that did not answer; a sentence each."""

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return tuple(gpu for node in self.nodes for gpu in node.gpus)

    @property
    def holders(self) -> Iterator[tuple[Holder, Gpu | None]]:
        """Every pod with GPUs, whole or shared, once for each GPU; None for a GPU that is not known yet."""
        for node in self.nodes:
            yield from ((holder, gpu) for gpu in node.gpus for holder in gpu.holders)
            yield from ((holder, None) for holder in node.unplaced)

    def count(self, state: GpuState) -> int:
        """Number of GPUs in a state; those that a node withholds are unhealthy, whichever they are."""
        found = sum(gpu.state is state for gpu in self.gpus)
        withheld = sum(node.withheld for node in self.nodes)
        return {GpuState.UNHEALTHY: found + withheld, GpuState.FREE: max(0, found - withheld)}.get(state, found)

    @property
    def largest_free(self) -> float:
        """The largest share of one GPU that a pod could get."""
        return max((node.free for node in self.nodes), default=0.0)

    @property
    def summary(self) -> GpuSummary:
        return {
            "nodes": len(self.nodes),
            "nodes_without_gpus": self.others,
            "gpus": len(self.gpus),
            "free": self.count(GpuState.FREE),
            "shared": self.count(GpuState.SHARED),
            "whole": self.count(GpuState.WHOLE),
            "over": self.count(GpuState.OVER),
            "unhealthy": self.count(GpuState.UNHEALTHY),
            "largest_free_share": self.largest_free,
            "waiting": len(self.waiting),
        }

    JSON = "at summary nodes waiting notes"
