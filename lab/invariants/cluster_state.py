"""The input of the rules: one state of a cluster with its pods, nodes and GPUs."""

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
    """A cluster snapshot with each pod parsed once."""

    snapshot: ClusterSnapshot
    pods: tuple[PodInfo, ...] = ()
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    tenants: Mapping[str, ClusterState] = field(default_factory=dict)
    """Tenant → the state that its own API shows."""
    own_kai: frozenset[str] = frozenset()
    """Tenants with their own KAI, whose pods this cluster's KAI does not schedule."""
    inside: bool = False
    """Read through a tenant's API: the nodes and their labels are the host's, and all pods the tenant's."""

    def mine(self, pod: PodInfo) -> bool:
        """Whether this cluster's KAI schedules the pod."""
        return pod.view.scheduler_name == KAI_SCHEDULER and pod.tenant not in self.own_kai

    @cached_property
    def gpus(self) -> GpuAllocation:
        return GpuAllocation(self.pods, self.nodes)

    @cached_property
    def pod_groups(self) -> Mapping[tuple[str, str], PodGroupView]:
        """Namespace and name → PodGroup."""
        return {(group.namespace, group.name): group for group in self.snapshot.pod_groups}

    @cached_property
    def queues(self) -> Mapping[str, QueueView]:
        return {queue.name: queue for queue in self.snapshot.queues}

    def gpus_of(self, node: str) -> int:
        """The number of nvidia.com/gpu of a node by its labels or its status, whichever is more; 0 if unknown.

        A device plugin that restarts reports 0 for a moment, while the pods keep their GPUs.
        """
        view = self.nodes.get(node)
        if view is None:
            return 0
        return max(view.gpus, (whole(view.labels.get(GPU_COUNT_LABEL)) or 0) * view.gpu_replicas)


def tenants_with_kai(pods: Iterable[PodInfo]) -> frozenset[str]:
    """The tenants that run KAI's components themselves."""
    return frozenset(pod.tenant for pod in pods if pod.tenant and pod.synced.namespace == KAI_SCHEDULER)
