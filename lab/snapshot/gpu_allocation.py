"""Which pod has what share of which GPU, from the pods and nodes of a cluster snapshot.

The API shows the UUID only of shared GPUs, by the reservation pod of their GPU group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from lab.objects.views import NodeView
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.pod_info import GpuRole, PodInfo

_UNKNOWN_MEMORY = 100
"""MiB that KAI assumes for a GPU without a memory label (node_info.go, DefaultGpuMemory)."""


def counted_memory(gpu_memory: int | None) -> int:
    """MiB of a GPU as KAI counts, rounded down to hundreds."""
    return (gpu_memory or 0) // 100 * 100 or _UNKNOWN_MEMORY


def portion(mib: int, gpu_memory: int | None) -> float:
    """The share of a GPU that ``mib`` MiB count as in KAI, rounded up to hundredths."""
    return math.ceil(100 * mib / counted_memory(gpu_memory)) / 100


@dataclass(frozen=True)
class SharedGpu:
    """A GPU that pods share."""

    node: str
    uuid: str
    """Empty until a reservation pod reports it."""
    groups: tuple[str, ...]
    """KAI's names for it; more than one is an error in itself, but their shares still add up."""
    memory: int | None
    """MiB by the node's label."""
    reservations: tuple[PodInfo, ...]
    users: tuple[PodInfo, ...]
    """Bound pods on it, once for each of its groups that they belong to."""

    @property
    def name(self) -> str:
        """Its UUID, or its GPU group until the UUID is known."""
        return self.uuid or self.groups[0]

    @property
    def title(self) -> str:
        return f"GPU {self.name} of {self.node}"

    @property
    def pod_keys(self) -> tuple[str, ...]:
        return tuple(sorted(pod.key for pod in self.users))

    JSON = "gpu=name free pods=pod_keys"

    @property
    def used(self) -> float:
        """Sum of its shares in KAI's arithmetic."""
        return round(sum(self._share(pod) for pod in self.users), 4)

    @property
    def free(self) -> float:
        return max(0.0, round(1.0 - self.used, 4))

    def _share(self, pod: PodInfo) -> float:
        if pod.requests.gpu_memory is None or pod.requests.fraction is not None:
            return pod.requests.fraction or 0.0
        return portion(pod.requests.gpu_memory, self.memory)


@dataclass(frozen=True)
class GpuAllocation:
    """The pods of one cluster by their GPUs."""

    pods: tuple[PodInfo, ...]
    nodes: Mapping[str, NodeView] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: ClusterSnapshot) -> GpuAllocation:
        """The allocation of a cluster; a pod with a BindRequest counts on the requested node before it is bound."""
        requests = {f"{request.namespace}/{request.pod}": request for request in snapshot.bind_requests}
        pods = tuple(pod.assumed(requests.get(pod.key)) for pod in map(PodInfo.of, snapshot.of("Pod")))
        return cls(pods, {node.name: node for node in snapshot.nodes})

    def by_role(self, role: GpuRole) -> tuple[PodInfo, ...]:
        return tuple(sorted((pod for pod in self.pods if pod.gpu_role is role), key=lambda pod: pod.key))

    @cached_property
    def users(self) -> Mapping[str, tuple[PodInfo, ...]]:
        """GPU group → the bound pods that share its GPU."""
        return self._by_group(lambda pod: pod.bound and not pod.is_reservation)

    @cached_property
    def reservations(self) -> Mapping[str, tuple[PodInfo, ...]]:
        """GPU group → its reservation pods, except those being deleted."""
        return self._by_group(lambda pod: pod.staying and pod.is_reservation)

    @cached_property
    def shared(self) -> tuple[SharedGpu, ...]:
        """The shared GPUs by node and group, including those with a reservation pod alone.

        Groups on one node whose reservation pods report the same UUID are one GPU.
        """
        reserved = self._by_group(lambda pod: pod.bound and pod.is_reservation)
        uuids = {
            (pod.view.node, group): pod.view.reserved_gpu for group, pods in self.reservations.items() for pod in pods
        }
        groups: dict[tuple[str, str], set[str]] = {}
        for group, pods in (*reserved.items(), *self.users.items()):
            for node in {pod.view.node for pod in pods}:
                groups.setdefault((node, uuids.get((node, group)) or group), set()).add(group)

        def on(node: str, among: Mapping[str, Iterable[PodInfo]], names: Iterable[str]) -> tuple[PodInfo, ...]:
            return tuple(pod for name in names for pod in among.get(name, ()) if pod.view.node == node)

        found = []
        for (node, _), names in groups.items():
            ordered = tuple(sorted(names))
            reservations = sorted(on(node, reserved, ordered), key=lambda pod: not pod.staying)
            found.append(
                SharedGpu(
                    node=node,
                    uuid=next((pod.view.reserved_gpu for pod in reservations if pod.view.reserved_gpu), ""),
                    groups=ordered,
                    memory=self.nodes[node].gpu_memory if node in self.nodes else None,
                    reservations=tuple(reservations),
                    users=on(node, self.users, ordered),
                )
            )
        return tuple(sorted(found, key=lambda gpu: (gpu.node, gpu.groups)))

    def _by_group(self, chosen: Callable[[PodInfo], bool]) -> dict[str, tuple[PodInfo, ...]]:
        found: dict[str, tuple[PodInfo, ...]] = {}
        for pod in filter(chosen, self.pods):
            for group in pod.view.gpu_groups:
                found[group] = (*found.get(group, ()), pod)
        return found
