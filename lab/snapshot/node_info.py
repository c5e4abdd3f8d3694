"""Allocatable, requested and free resources of each node (kube-scheduler's NodeInfo), including shares of GPUs."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from lab.kai.names import GPU_RESOURCE
from lab.kube.client import Cluster
from lab.objects.views import NodeView
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.gpu_allocation import GpuAllocation, SharedGpu, counted_memory
from lab.snapshot.pod_info import PodInfo


@dataclass(frozen=True)
class NodeInfo:
    """A node with its pods' requests. Amounts are by resource: cpu in millicores, memory in bytes."""

    node: NodeView
    capacity_gpus: int
    """More than are allocatable when some are unhealthy."""
    allocatable: Mapping[str, float]
    requested: Mapping[str, float]
    """GPUs include those that reservation pods hold, or will hold, for fractions."""
    pods: tuple[PodInfo, ...]
    """Without ended ones."""
    shared: tuple[SharedGpu, ...]

    def free(self, resource: str) -> float:
        return max(0.0, self.allocatable.get(resource, 0.0) - self.requested.get(resource, 0.0))

    @property
    def gpus_free(self) -> int:
        return int(self.free(GPU_RESOURCE))

    @property
    def gpu_memory(self) -> int | None:
        """MiB of one GPU as KAI counts, rounded down to hundreds; None without a label."""
        return None if self.node.gpu_memory is None else counted_memory(self.node.gpu_memory)

    JSON = "name=node.name ready=node.ready cordoned=node.unschedulable gpus=node.gpus gpusFree=gpus_free shared"

    @property
    def holders(self) -> tuple[tuple[str, int], ...]:
        """Pod as ``namespace/name`` and its whole GPUs, without reservation pods."""
        return tuple(
            sorted((pod.key, pod.requests.gpus) for pod in self.pods if pod.requests.gpus and not pod.is_reservation)
        )


@dataclass(frozen=True)
class FreeGpus:
    """GPUs available to a pod: whole ones, and the largest free share of one that is already shared."""

    gpus: int
    share: float

    @classmethod
    def of(cls, infos: Iterable[NodeInfo]) -> FreeGpus:
        usable = [info for info in infos if info.node.ready and not info.node.unschedulable]
        shares = (gpu.free for info in usable for gpu in info.shared)
        return cls(sum(info.gpus_free for info in usable), max(shares, default=0.0))


@functools.lru_cache(maxsize=4)
def node_infos(snapshot: ClusterSnapshot) -> tuple[NodeInfo, ...]:
    """All nodes, sorted by name; a pod with a BindRequest counts on the requested node before it is bound."""
    allocation = GpuAllocation.of(snapshot)
    return tuple(_info(node, allocation) for node in sorted(snapshot.nodes, key=lambda node: node.name))


def read_node_infos(cluster: Cluster) -> tuple[NodeInfo, ...]:
    """The current nodes of a cluster, from its nodes and pods alone. Raises ApiFailed."""
    objects = {kind: tuple(cluster.list(kind)) for kind in ("Node", "Pod")}
    return node_infos(ClusterSnapshot(datetime.now(UTC), objects))


def _info(node: NodeView, allocation: GpuAllocation) -> NodeInfo:
    pods = tuple(pod for pod in allocation.pods if pod.bound and pod.view.node == node.name)
    shared = tuple(gpu for gpu in allocation.shared if gpu.node == node.name)
    requested: dict[str, float] = {"pods": len(pods)}
    for pod in pods:
        for name, count in pod.requests.amounts.items():
            requested[name] = requested.get(name, 0.0) + count
    # Between the scheduler's decision and the reservation pod, no pod holds the GPU yet.
    unheld = sum(not gpu.reservations for gpu in shared)
    requested[GPU_RESOURCE] = requested.get(GPU_RESOURCE, 0.0) + unheld
    return NodeInfo(
        node=node,
        capacity_gpus=int(node.capacity.get(GPU_RESOURCE, node.gpus)),
        allocatable={**node.allocatable, "cpu": node.allocatable.get("cpu", 0.0) * 1000},
        requested=requested,
        pods=pods,
        shared=shared,
    )
