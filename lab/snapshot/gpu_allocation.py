"""Which pod has what of which GPU: whole GPUs, fractions, GPU memory, and KAI's reservation pods. Pure.

The API tells a GPU's UUID only of GPUs that pods share: the reservation pod of their GPU group knows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from lab.objects.node import NodeView
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.pod_info import GpuRole, PodInfo

_UNKNOWN_MEMORY = 100
"""MiB that KAI takes for a GPU whose memory no label tells (node_info.go, DefaultGpuMemory)."""


def counted_memory(gpu_memory: int | None) -> int:
    """MiB of a GPU as KAI counts: rounded down to hundreds."""
    return (gpu_memory or 0) // 100 * 100 or _UNKNOWN_MEMORY


def portion(mib: int, gpu_memory: int | None) -> float:
    """The part of a GPU that ``mib`` MiB are to KAI, rounded up to hundredths."""
    return math.ceil(100 * mib / counted_memory(gpu_memory)) / 100


@dataclass(frozen=True)
class SharedGpu:
    """A GPU that fractions share."""

    node: str
    uuid: str
    """Empty as long as no reservation pod has found it."""
    groups: tuple[str, ...]
    """KAI's names for it: more than one are wrong in themselves, and their shares add up all the same."""
    memory: int | None
    """MiB by the node's label."""
    reservations: tuple[PodInfo, ...]
    users: tuple[PodInfo, ...]
    """Bound pods on it, once for each of its groups that they are in."""

    @property
    def name(self) -> str:
        """Its UUID, or its GPU group as long as that is not known."""
        return self.uuid or self.groups[0]

    @property
    def title(self) -> str:
        return f"GPU {self.name} of {self.node}"

    @property
    def pod_keys(self) -> tuple[str, ...]:
        return tuple(sorted(pod.key for pod in self.users))

    @property
    def used(self) -> float:
        """Sum of the shares on it, in KAI's arithmetic."""
        return round(sum(self._share(pod) for pod in self.users), 4)

    @property
    def free(self) -> float:
        return max(0.0, round(1.0 - self.used, 4))

    def _share(self, pod: PodInfo) -> float:
        if pod.requests.fraction is not None:
            return pod.requests.fraction
        return portion(pod.requests.gpu_memory, self.memory) if pod.requests.gpu_memory is not None else 0.0


@dataclass(frozen=True)
class GpuAllocation:
    """The pods of one cluster by what they have of its GPUs."""

    pods: tuple[PodInfo, ...]
    nodes: Mapping[str, NodeView] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: ClusterSnapshot) -> GpuAllocation:
        """A cluster's. A pod that KAI has decided on and not bound yet counts on the node it was given."""
        decided = {(request.namespace, request.pod): request for request in snapshot.bind_requests}
        pods = map(PodInfo.of, snapshot.of("Pod"))
        return cls(
            tuple(
                pod.assumed(request) if (request := decided.get((pod.view.namespace, pod.view.name))) else pod
                for pod in pods
            ),
            {node.name: node for node in snapshot.nodes},
        )

    def by_role(self, role: GpuRole) -> tuple[PodInfo, ...]:
        return self._roles.get(role, ())

    @cached_property
    def users(self) -> Mapping[str, tuple[PodInfo, ...]]:
        """GPU group → the bound pods that share its GPU."""
        return self._by_group(lambda pod: pod.bound and not pod.is_reservation)

    @cached_property
    def reservations(self) -> Mapping[str, tuple[PodInfo, ...]]:
        """GPU group → its reservation pods that stay."""
        return self._by_group(lambda pod: pod.staying and pod.is_reservation)

    @cached_property
    def shared(self) -> tuple[SharedGpu, ...]:
        """The shared GPUs by node and group, those that only a reservation pod is on included.

        Groups are one GPU where their reservation pods that stay hold the same UUID.
        """
        holding = self._by_group(lambda pod: pod.bound and pod.is_reservation)
        uuids = {
            (pod.view.node, group): pod.view.reserved_gpu for group, pods in self.reservations.items() for pod in pods
        }
        groups: dict[tuple[str, str], set[str]] = {}
        for group, pods in (*holding.items(), *self.users.items()):
            for node in {pod.view.node for pod in pods}:
                groups.setdefault((node, uuids.get((node, group)) or group), set()).add(group)

        def on(node: str, among: Mapping[str, Iterable[PodInfo]], names: Iterable[str]) -> tuple[PodInfo, ...]:
            return tuple(pod for name in names for pod in among.get(name, ()) if pod.view.node == node)

        found = []
        for (node, _), names in groups.items():
            ordered = tuple(sorted(names))
            reservations = sorted(on(node, holding, ordered), key=lambda pod: not pod.staying)
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

    @cached_property
    def _roles(self) -> Mapping[GpuRole, tuple[PodInfo, ...]]:
        found: dict[GpuRole, list[PodInfo]] = {}
        for pod in sorted(self.pods, key=lambda pod: pod.key):
            if pod.gpu_role is not None:
                found.setdefault(pod.gpu_role, []).append(pod)
        return {role: tuple(pods) for role, pods in found.items()}
