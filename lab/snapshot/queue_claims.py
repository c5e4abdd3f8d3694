"""What the queues of a cluster may claim and request, read from a snapshot as KAI's scheduler reads it.

Source: pkg/scheduler/plugins/proportion/proportion.go (setTotalResources, updateQueuesCurrentResourceUsage) and
pkg/scheduler/api/pod_info/pod_info.go (getTaskStatus), KAI 0.16.8.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping

from lab.fair_share import RESOURCES, QueueClaim
from lab.kai.names import GPU_RESOURCE, KAI_SCHEDULER, MIG_PREFIX, RESERVATION_APP
from lab.objects.fields import parts
from lab.objects.kai import QueueView, queue_path
from lab.objects.pod_requests import PodRequests
from lab.objects.views import NodeView
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.gpu_allocation import counted_memory, portion
from lab.snapshot.kai_installation import installation
from lab.snapshot.pod_info import PodInfo

_PRESSURE = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_UTILITY_APPS = (RESERVATION_APP, "scaling-pod")
"""Label ``app`` of KAI's own pods for GPUs and for the cluster autoscaler."""


class PodState(enum.Enum):
    """A pod's state in KAI's scheduler."""

    PENDING = "pending"
    """Waits for a node."""
    ALLOCATED = "allocated"
    """Bound, or about to be bound by a BindRequest."""
    RELEASING = "releasing"
    """Being deleted: it holds its node's resources, but counts for no queue."""
    OTHER = "other"
    """Ended, or with scheduling gates."""


def pod_state(pod: PodInfo, gated: bool, bound_soon: bool) -> PodState:
    """Return the state of a pod; ``gated`` by scheduling gates, ``bound_soon`` by a BindRequest."""
    view = pod.view
    if view.phase not in ("Pending", "Running", ""):
        return PodState.OTHER
    if view.deleting:
        return PodState.RELEASING
    if view.phase == "Running" or view.node or bound_soon:
        return PodState.ALLOCATED
    return PodState.OTHER if gated else PodState.PENDING


def quota_of(requests: PodRequests, gpu_memory: int | None, *, allocated: bool) -> dict[str, float]:
    """Return what a pod counts against its queue: millicores, MB, GPUs.

    Args:
        requests: of the pod.
        gpu_memory: MiB of a GPU of its node if it is allocated, else of the smallest GPU in the cluster.
        allocated: KAI rounds the share of an allocated gpu-memory request up to hundredths.
    """
    gpus = requests.gpus + sum(count * _mig_gpus(name) for name, count in requests.mig.items())
    if requests.gpu_memory is not None and requests.fraction is None:
        memory = counted_memory(gpu_memory)
        share = portion(requests.gpu_memory, gpu_memory) if allocated else requests.gpu_memory / memory
        gpus += share * requests.devices if allocated or gpu_memory is not None else 0.0
    elif requests.fraction is not None:
        gpus += requests.fraction * requests.devices
    return {"cpu": requests.cpu, "memory": requests.memory / 1e6, "gpu": round(gpus, 9)}


def smallest_gpu(snapshot: ClusterSnapshot) -> int | None:
    """Return the memory (MiB) of the smallest GPU by the nodes' labels, None without labels."""
    return min((node.gpu_memory for node in snapshot.nodes if node.gpu_memory is not None), default=None)


def usable(node: NodeView) -> bool:
    """Whether KAI counts the node's resources: Ready, not cordoned, under no pressure (scheduler_utils.go)."""
    pressed = any(c.type in _PRESSURE and c.status != "False" for c in node.conditions)
    return node.ready and not node.unschedulable and not pressed


def in_default_pool(node: NodeView, pool_key: str, pools: frozenset[str]) -> bool:
    """Whether a scheduler whose pools are ``pools`` (empty value: nodes without the label) serves the node."""
    return not pool_key or not pools or node.labels.get(pool_key, "") in pools


@functools.lru_cache(maxsize=4)
def cluster_total(snapshot: ClusterSnapshot) -> Mapping[str, float]:
    """Return what KAI divides: allocatable resources of usable nodes without the pods of other schedulers."""
    kai = installation(snapshot)
    scheduler = kai.scheduler_name if kai else KAI_SCHEDULER
    total = dict.fromkeys(RESOURCES, 0.0)
    names = set()
    for node in snapshot.nodes:
        if usable(node) and (kai is None or in_default_pool(node, kai.pool_key, kai.pools)):
            names.add(node.name)
            total["cpu"] += node.allocatable.get("cpu", 0.0) * 1000
            total["memory"] += node.allocatable.get("memory", 0.0) / 1e6
            mig = sum(c * _mig_gpus(name) for name, c in node.allocatable.items() if name.startswith(MIG_PREFIX))
            total["gpu"] += node.allocatable.get(GPU_RESOURCE, 0.0) + mig
    for obj in snapshot.of("Pod"):
        pod = PodInfo.of(obj)
        foreign = pod.view.scheduler_name != scheduler and pod.view.labels.get("app") not in _UTILITY_APPS
        if foreign and pod.bound and pod.view.node in names:
            for name, amount in quota_of(pod.requests, None, allocated=False).items():
                total[name] -= amount
    return total


@functools.lru_cache(maxsize=4)
def queue_claims(snapshot: ClusterSnapshot) -> tuple[QueueClaim, ...]:
    """Return the claims of all queues with what their pods and those of their descendants request.

    Past usage (time-based fair share) is not in the API: it counts as 0.
    """
    parents = {queue.name: queue.parent for queue in snapshot.queues}
    requests = {name: dict.fromkeys(RESOURCES, 0.0) for name in parents}
    groups = {(group.namespace, group.name): group.queue for group in snapshot.pod_groups}
    binds = {(request.namespace, request.pod): request for request in snapshot.bind_requests}
    memory = {node.name: node.gpu_memory for node in snapshot.nodes}
    smallest = smallest_gpu(snapshot)
    for obj in snapshot.of("Pod"):
        pod = PodInfo.of(obj)
        queue = groups.get((pod.view.namespace, pod.view.pod_group), "")
        bind = binds.get((pod.view.namespace, pod.view.name))
        state = pod_state(pod, bool(parts(obj)[1].get("schedulingGates")), bind is not None)
        if queue not in parents or state not in (PodState.PENDING, PodState.ALLOCATED):
            continue
        allocated = state is PodState.ALLOCATED
        node = pod.view.node or (bind.node if bind else "")
        gpu = memory.get(node) if allocated else smallest
        amounts = quota_of(pod.requests, gpu, allocated=allocated)
        for name in queue_path(queue, parents):
            for resource, amount in amounts.items():
                requests[name][resource] += amount
    metas = [parts(obj)[0] for obj in snapshot.of("Queue")]
    created = {meta.get("name", ""): meta.get("creationTimestamp", "") for meta in metas}
    return tuple(claim_of(queue, requests[queue.name], str(created[queue.name] or "")) for queue in snapshot.queues)


def claim_of(queue: QueueView, request: Mapping[str, float], created: str = "") -> QueueClaim:
    """Return the claim of a queue that requests ``request``."""
    shares = {name: getattr(queue, name) for name in RESOURCES}
    return QueueClaim(queue.name, queue.parent, queue.priority, created, shares, dict(request))


def _mig_gpus(resource: str) -> float:
    """Return the GPUs that a MIG resource such as nvidia.com/mig-3g.20gb counts: 3."""
    digits = resource.removeprefix(MIG_PREFIX).partition("g.")[0]
    return float(digits) if digits.isdigit() else 0.0
