"""One state of a cluster as the rules read it: its pods with what they hold, seated on nodes and GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from lab.kai.names import (
    GPU_COUNT_LABEL,
    GPU_REPLICAS_LABEL,
    GPU_RESOURCE,
    KAI_SCHEDULER,
    RESERVATION_APP,
    RESERVED_GPU_ANNOTATION,
)
from lab.objects.fields import Obj, parts, whole
from lab.objects.kai import PodGroupView, QueueView
from lab.objects.node import NodeView
from lab.objects.pod import PodView
from lab.objects.pod_requests import PodRequests
from lab.objects.synced import SyncedObject
from lab.snapshot.cluster_snapshot import ClusterSnapshot


@dataclass(frozen=True)
class PodState:
    """A pod, with what it asks for and whose it is."""

    view: PodView
    needs: PodRequests
    synced: SyncedObject
    """Whose it is, and under which name."""
    gpus_told: tuple[str, ...] = ()
    """UUIDs of GPUs it has to itself, where its kubelet tells (feature gate ResourceHealthStatus); else nobody does."""

    @classmethod
    def of(cls, obj: Obj) -> PodState:
        """The state of a Pod object."""
        view = PodView.of(obj)
        return cls(view=view, needs=PodRequests.of(obj), synced=SyncedObject.of(obj), gpus_told=_gpus_told(obj))

    @property
    def tenant(self) -> str:
        """The vCluster that it is a copy for; empty for the cluster's own."""
        return self.synced.tenant

    @property
    def bound(self) -> bool:
        """Whether it holds what it was given: it is on a node and has not ended, even while it is being deleted.

        So count KAI (pkg/scheduler/api/pod_status, Bound to Releasing) and the kubelet.
        """
        return bool(self.view.node) and not self.view.ended

    @property
    def staying(self) -> bool:
        """Bound, and not on its way out."""
        return self.bound and not self.view.deleting

    @property
    def reservation(self) -> bool:
        """Whether KAI made it to hold a GPU; also as a tenant's copy."""
        return self.synced.namespace == RESERVATION_APP and self.view.labels.get("app") == RESERVATION_APP

    @property
    def gpu_uuid(self) -> str:
        """The GPU that a reservation pod has found; empty before that."""
        return self.view.annotations.get(RESERVED_GPU_ANNOTATION, "")

    @property
    def title(self) -> str:
        """How evidence names it; a tenant's copy also by its own name."""
        name = f"pod {self.view.namespace}/{self.view.name}"
        if not self.tenant:
            return name
        return f"{name} ({self.synced.title} of tenant {self.tenant})"

    @property
    def line(self) -> str:
        """The pod in one line of evidence."""
        view = self.view
        words = [view.phase or "no phase", f"on {view.node}" if view.node else "not bound"]
        if view.deleting:
            words.append("being deleted")
        if self.reservation:
            words.append(f"holds GPU {self.gpu_uuid or '(not told yet)'}")
        elif self.needs.wants_gpu:
            words.append(f"wants {self.needs.in_words()}")
        if view.gpu_groups:
            words.append(f"GPU group {', '.join(view.gpu_groups)}")
        return f"{self.title}: {', '.join(words)}"


@dataclass(frozen=True)
class ClusterState:
    """A World, each of its pods read once. The rules are functions of this."""

    world: ClusterSnapshot
    pods: tuple[PodState, ...] = ()
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
        pods = tuple(PodState.of(obj) for obj in world.of("Pod"))
        return cls(
            world=world,
            pods=pods,
            nodes={node.name: node for node in world.nodes},
            tenants={name: cls.of(inner, inside=True) for name, inner in (tenants or {}).items()},
            own_kai=frozenset(own_kai) | tenants_with_kai(pods),
            inside=inside,
        )

    def mine(self, pod: PodState) -> bool:
        """Whether this cluster's KAI schedules the pod."""
        return pod.view.scheduler_name == KAI_SCHEDULER and pod.tenant not in self.own_kai

    @cached_property
    def users(self) -> Mapping[str, tuple[PodState, ...]]:
        """GPU group → the bound pods that share its GPU."""
        return _by_group(pod for pod in self.pods if pod.bound and not pod.reservation)

    @cached_property
    def reservations(self) -> Mapping[str, tuple[PodState, ...]]:
        """GPU group → its live reservation pods."""
        return _by_group(pod for pod in self.pods if pod.reservation and pod.staying)

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
        return max(view.gpus, count * (whole(view.labels.get(GPU_REPLICAS_LABEL)) or 1))

    def gpu_memory_of(self, node: str) -> int:
        """MiB of each GPU of a node by its label nvidia.com/gpu.memory; 0: not known."""
        view = self.nodes.get(node)
        return (view.gpu_memory or 0) if view is not None else 0


def tenants_with_kai(pods: Iterable[PodState]) -> frozenset[str]:
    """The tenants that run KAI's components themselves."""
    return frozenset(pod.tenant for pod in pods if pod.tenant and pod.synced.namespace == KAI_SCHEDULER)


def _gpus_told(obj: Obj) -> tuple[str, ...]:
    """What stands in front of ``::`` is the GPU, where the device is a replica of one (time-slicing)."""
    found = [
        str(device.get("resourceID", "")).partition("::")[0]
        for state in parts(obj)[2].get("containerStatuses") or []
        for resource in state.get("allocatedResourcesStatus") or []
        if resource.get("name") == GPU_RESOURCE
        for device in resource.get("resources") or []
    ]
    return tuple(dict.fromkeys(uuid for uuid in found if uuid))


def _by_group(pods: Iterable[PodState]) -> dict[str, tuple[PodState, ...]]:
    found: dict[str, tuple[PodState, ...]] = {}
    for pod in pods:
        for group in pod.view.gpu_groups:
            found[group] = (*found.get(group, ()), pod)
    return found
