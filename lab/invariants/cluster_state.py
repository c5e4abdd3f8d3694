"""One state of a cluster as the rules read it: its pods with what they hold, seated on nodes and GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from lab.kai.names import GPU_COUNT_LABEL, KAI_SCHEDULER
from lab.objects.fields import whole
from lab.objects.kai import PodGroupView, QueueView
from lab.objects.views import NodeView
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.gpu_allocation import GpuAllocation
from lab.snapshot.pod_info import PodInfo


@dataclass(frozen=True)
class ClusterState:
    """A World, each of its pods read once. The rules are functions of this."""

    world: ClusterSnapshot
    pods: tuple[PodInfo, ...] = ()
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    tenants: Mapping[str, ClusterState] = field(default_factory=dict)
    """Tenant → what is seen through its own API."""
    own_kai: frozenset[str] = frozenset()
    """Tenants with a KAI of their own: their pods are not the business of this cluster's KAI."""
    inside: bool = False
    """It is seen through a tenant's API: nodes and their labels are the host's, and all pods the tenant's."""

    @classmethod
    def of(
        cls,
        world: ClusterSnapshot,
        tenants: Mapping[str, ClusterSnapshot] | None = None,
        own_kai: Iterable[str] = (),
        *,
        inside: bool = False,
    ) -> ClusterState:
        """The scene of a world.

        Args:
            world: the cluster.
            tenants: tenant → its world, by its own API.
            own_kai: tenants known to have a KAI of their own; others are recognised by their KAI's pods.
            inside: the cluster is a tenant's.
        """
        pods = tuple(PodInfo.of(obj) for obj in world.of("Pod"))
        return cls(
            world=world,
            pods=pods,
            nodes={node.name: node for node in world.nodes},
            tenants={name: cls.of(inner, inside=True) for name, inner in (tenants or {}).items()},
            own_kai=frozenset(own_kai) | tenants_with_kai(pods),
            inside=inside,
        )

    def mine(self, pod: PodInfo) -> bool:
        """Whether this cluster's KAI schedules the pod."""
        return pod.view.scheduler_name == KAI_SCHEDULER and pod.tenant not in self.own_kai

    @cached_property
    def gpus(self) -> GpuAllocation:
        return GpuAllocation(self.pods, self.nodes)

    @cached_property
    def pod_groups(self) -> Mapping[tuple[str, str], PodGroupView]:
        """Namespace and name → PodGroup."""
        return {(group.namespace, group.name): group for group in self.world.pod_groups}

    @cached_property
    def queues(self) -> Mapping[str, QueueView]:
        """Name → queue."""
        return {queue.name: queue for queue in self.world.queues}

    def gpus_of(self, node: str) -> int:
        """How many nvidia.com/gpu a node has by its labels or its status, whichever is more; 0: not known.

        A device plugin that starts anew tells 0 for a moment, while the pods keep their GPUs.
        """
        view = self.nodes.get(node)
        if view is None:
            return 0
        count = whole(view.labels.get(GPU_COUNT_LABEL)) or 0
        return max(view.gpus, count * view.gpu_replicas)

    def gpu_memory_of(self, node: str) -> int:
        """MiB of each GPU of a node by its label nvidia.com/gpu.memory; 0: not known."""
        view = self.nodes.get(node)
        return (view.gpu_memory or 0) if view is not None else 0


def tenants_with_kai(pods: Iterable[PodInfo]) -> frozenset[str]:
    """The tenants that run KAI's components themselves."""
    return frozenset(pod.tenant for pod in pods if pod.tenant and pod.synced.namespace == KAI_SCHEDULER)
