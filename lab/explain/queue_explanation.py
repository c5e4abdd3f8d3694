"""What each queue deserves, gets and uses, and why: KAI's division computed again, beside what KAI computed.

Sources, KAI 0.9.8 to 0.17.0: pkg/scheduler/plugins/proportion (the division), pkg/scheduler/metrics/metrics.go
(``kai_queue_fair_share_*`` and ``kai_queue_*_usage``), pkg/queuecontroller (Queue.status).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from lab.explain.lookup import NoSuchPod
from lab.fair_share import RESOURCES, QueueClaim, fair_shares
from lab.findings import Certainty, Finding
from lab.objects.fields import parts
from lab.objects.kai import QueueView, Usage, queue_path, usage_of
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.pod_info import PodInfo
from lab.snapshot.queue_claims import PodState, cluster_total, pod_state, queue_claims, quota_of
from lab.snapshot.scheduler_metrics import samples
from lab.text import count, nearest

UNITS: Mapping[str, str] = {"gpu": "GPUs", "cpu": "m cpu", "memory": "MB"}
_FAIR = {
    "gpu": ("fair_share_gpu", 1.0),
    "cpu": ("fair_share_cpu_cores", 1000.0),
    "memory": ("fair_share_memory_gb", 1e3),
}
"""Metric of the fair share, and the units of QueueView in one of its units."""
_USED = {"gpu": "gpu_usage", "cpu": "cpu_usage", "memory": "memory_usage"}
_SAME = {"gpu": 0.01, "cpu": 2.0, "memory": 2.0}
"""Differences by rounding."""


@dataclass(frozen=True)
class QueueFigures:
    """One resource of a queue, in GPUs, millicores or MB; -1 is unlimited."""

    quota: float
    limit: float
    weight: float
    """overQuotaWeight."""
    deserved: float
    """The part of the fair share from the quota."""
    over_quota: float
    """The part by weight, rounding included."""
    fair: float
    """The fair share, computed."""
    kai_fair: float | None
    """The fair share by the scheduler's metric; None if it could not be read."""
    past_use: float | None
    """Past use as a part of the cluster, by the metric; None without time-based fair share."""
    allocated: float
    """By the queue's pods and those of its descendants."""
    requested: float
    """By those, pending ones included."""
    status_allocated: float
    status_requested: float
    releasing: float
    """By pods that are being deleted, which Queue.status may still count."""

    @property
    def borrowed(self) -> float:
        """Above the quota."""
        return 0.0 if self.quota == -1 else round(max(0.0, self.allocated - self.quota), 6)

    @property
    def unused_quota(self) -> float:
        return 0.0 if self.quota == -1 else round(max(0.0, self.quota - self.allocated), 6)


@dataclass(frozen=True)
class QueueExplanation:
    """One queue."""

    name: str
    parent: str
    depth: int
    priority: int
    resources: Mapping[str, QueueFigures]
    """gpu, cpu and memory."""
    borrows_from: Mapping[str, float]
    """Siblings with unused quota, in GPUs, and ``unreserved``: what no quota of a sibling reserves."""
    borrowed_by: Mapping[str, float]
    """Siblings above their quota while this queue has unused quota, in GPUs."""
    why: tuple[str, ...]
    """How its fair share of GPUs comes about."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class QueueTree:
    """The queues of a cluster, each after its parent."""

    total: Mapping[str, float]
    """What KAI divides: gpu, cpu in millicores, memory in MB."""
    queues: tuple[QueueExplanation, ...]
    asked: str = ""
    """Name of the requested queue; empty: all."""
    dropped: tuple[str, ...] = ()
    """Queues that KAI ignores, as a parent does not exist."""

    @property
    def resource(self) -> str:
        """The resource of pictures: GPUs, or cpu in a cluster without GPUs."""
        return "gpu" if self.total.get("gpu") else "cpu"

    @property
    def scale(self) -> float:
        """The largest amount of that resource in a picture."""
        rows = [queue.resources[self.resource] for queue in self.queues]
        amounts = (value for row in rows for value in (row.allocated, row.fair, row.quota, row.limit))
        return max([self.total.get(self.resource, 0.0), *amounts])

    @property
    def explained(self) -> tuple[QueueExplanation, ...]:
        """The requested queue, or all."""
        return tuple(queue for queue in self.queues if self.asked in ("", queue.name))

    JSON = "asked total queues=explained dropped"


def explain_queues(snapshot: ClusterSnapshot, name: str = "") -> QueueTree:
    """Explain a queue, or all queues. Raises NoSuchPod if the queue does not exist."""
    views = {queue.name: queue for queue in snapshot.queues}
    if name and name not in views:
        near = nearest(name, views)
        raise NoSuchPod(
            f"queue {name} does not exist (queues: {', '.join(sorted(views)) or 'none'})",
            fix=f"kailab explain queue {near}" if near else "kailab explain queue",
        )
    total = cluster_total(snapshot)
    fair = {resource: _metric(snapshot, f"kai_queue_{metric}", factor) for resource, (metric, factor) in _FAIR.items()}
    used = {resource: _metric(snapshot, f"kai_queue_{metric}", 1.0) for resource, metric in _USED.items()}
    claims = [
        replace(claim, usage={r: used[r].get(claim.name, 0.0) for r in RESOURCES}) for claim in queue_claims(snapshot)
    ]
    shares = fair_shares(claims, total)
    allocated, releasing = _held(snapshot)
    raw = {parts(obj)[0].get("name", ""): parts(obj)[2] for obj in snapshot.of("Queue")}

    def resources(claim: QueueClaim) -> dict[str, QueueFigures]:
        view, found = views[claim.name], {}
        requested = usage_of(raw[claim.name].get("requested"))
        for resource in UNITS:
            share, own = shares[claim.name][resource], getattr(view, resource)
            found[resource] = QueueFigures(
                quota=own.quota,
                limit=own.limit,
                weight=own.weight,
                deserved=share.deserved,
                over_quota=share.over_quota + share.remainder,
                fair=share.fair,
                kai_fair=fair[resource].get(claim.name),
                past_use=used[resource].get(claim.name) or None,
                allocated=round(allocated[claim.name][resource], 6),
                requested=round(claim.request.get(resource, 0.0), 6),
                status_allocated=getattr(view.allocated, resource),
                status_requested=getattr(requested, resource),
                releasing=round(releasing[claim.name][resource], 6),
            )
        return found

    rows = {claim.name: resources(claim) for claim in claims if claim.name in shares}
    made = []
    for depth, view in _ordered(views, rows):
        siblings = {q: rows[q]["gpu"] for q in rows if views[q].parent == view.parent and q != view.name}
        pool = rows[view.parent]["gpu"].fair if view.parent else total["gpu"]
        made.append(_queue(snapshot, view, depth, rows[view.name], siblings, pool, views))
    return QueueTree(total, tuple(made), name, tuple(sorted(set(views) - set(rows))))


def _queue(
    snapshot: ClusterSnapshot,
    view: QueueView,
    depth: int,
    own: Mapping[str, QueueFigures],
    siblings: Mapping[str, QueueFigures],
    pool: float,
    views: Mapping[str, QueueView],
) -> QueueExplanation:
    gpu = own["gpu"]
    reserved = sum(max(0.0, row.quota) for row in (gpu, *siblings.values()))
    unreserved = (
        0.0 if any(row.quota == -1 for row in (gpu, *siblings.values())) else round(max(0.0, pool - reserved), 6)
    )
    lenders = {name: row.unused_quota for name, row in siblings.items() if row.unused_quota}
    lenders |= {"unreserved": unreserved} if unreserved else {}
    borrowers = {name: row.borrowed for name, row in siblings.items() if row.borrowed}
    peers = [siblings[name] for name in siblings if views[name].priority == view.priority]
    return QueueExplanation(
        name=view.name,
        parent=view.parent,
        depth=depth,
        priority=view.priority,
        resources=own,
        borrows_from=lenders if gpu.borrowed else {},
        borrowed_by=borrowers if gpu.unused_quota else {},
        why=tuple(_why(gpu, peers, view.priority)),
        findings=tuple(_findings(snapshot, view.name, own)),
    )


def _why(gpu: QueueFigures, peers: list[QueueFigures], priority: int) -> Iterator[str]:
    quota = "unlimited" if gpu.quota == -1 else f"{gpu.quota:g}"
    yield f"deserves {count(gpu.deserved, 'GPU')}: quota {quota}, requests {gpu.requested:g}"
    if gpu.limit != -1 and gpu.requested > gpu.limit:
        yield f"its limit of {gpu.limit:g} caps its fair share"
    wants = min(gpu.requested, gpu.limit) if gpu.limit != -1 else gpu.requested
    if gpu.over_quota or wants > gpu.deserved:
        weights = gpu.weight + sum(row.weight for row in peers if row.requested > row.deserved)
        part = (
            f"weight {gpu.weight:g} of {weights:g} among queues of priority {priority} that want more than their quota"
        )
        yield f"gets {gpu.over_quota:g} over quota: {part}"
    if wants > gpu.fair:
        yield f"wants {wants - gpu.fair:g} more than its fair share of {gpu.fair:g}"
    elif gpu.requested <= gpu.deserved:
        yield "requests no more than its quota, so its fair share is its request"
    if gpu.past_use:
        yield f"past use of {gpu.past_use:.1%} of the cluster lowers its weight"


def fair_share_differs(resource: str, row: QueueFigures) -> bool:
    """Whether KAI reports another fair share than the computed one, beyond rounding."""
    return row.kai_fair is not None and abs(row.kai_fair - row.fair) > max(_SAME[resource], 0.001 * row.fair)


def _findings(snapshot: ClusterSnapshot, name: str, own: Mapping[str, QueueFigures]) -> Iterator[Finding]:
    for resource, row in own.items():
        unit, same = UNITS[resource], _SAME[resource]
        if fair_share_differs(resource, row):
            yield Finding(
                f"KAI's fair share of queue {name} is {row.kai_fair:g} {unit}, and the computed one is {row.fair:g}",
                "repeat it: pods changed between the scheduler's cycle and the read, or kValue is not 1",
                (f"requests {row.requested:g}, deserves {row.deserved:g}, over quota {row.over_quota:g}",),
                Certainty.LIKELY,
                "note",
                f"queue {name}",
                "queue.fair-share-differs",
                "KAI computed another fair share",
                "pkg/scheduler/plugins/proportion/resource_division",
            )
        pairs = (("allocated", row.status_allocated, row.allocated), ("requested", row.status_requested, row.requested))
        for field, status, pods in pairs:
            same = max(same, 0.001 * pods)
            if not pods - same <= status <= pods + row.releasing + same:
                yield _wrong_status(snapshot, name, resource, field, status, pods)


def _wrong_status(
    snapshot: ClusterSnapshot, name: str, resource: str, field: str, status: float, pods: float
) -> Finding:
    """Return the finding about a Queue.status that differs from its pods, and the controller that is late."""
    parents = {queue.name: queue.parent for queue in snapshot.queues}
    rows: list[tuple[str, Usage]] = []
    for obj in snapshot.of("PodGroup"):
        meta, spec, state = parts(obj)
        if name in queue_path(spec.get("queue", ""), parents):
            amounts = usage_of((state.get("resourcesStatus") or {}).get(field))
            rows.append((f"{meta.get('namespace')}/{meta.get('name')}", amounts))
    groups = sum(getattr(amounts, resource) for _, amounts in rows)
    late = "queue-controller" if abs(groups - pods) <= _SAME[resource] else "podgroup-controller"
    unit = UNITS[resource]
    held = [f"PodGroup {title}: {getattr(one, resource):g} {unit}" for title, one in rows if getattr(one, resource)]
    return Finding(
        f"status.{field} of queue {name} has {status:g} {unit}, and its pods have {pods:g}",
        f"if it stays for a minute: kubectl rollout restart deployment/{late} -n kai-scheduler",
        (f"its PodGroups' status.resourcesStatus.{field} have {groups:g} {unit}", *held[:5]),
        Certainty.LIKELY,
        "warning",
        f"queue {name}",
        "queue.status-differs",
        "Queue.status differs from its pods",
        "KAI-Scheduler #1048",
    )


def _ordered(views: Mapping[str, QueueView], rows: Mapping[str, object]) -> Iterator[tuple[int, QueueView]]:
    """Yield depth and queue, each after its parent."""

    def below(parent: str, depth: int) -> Iterator[tuple[int, QueueView]]:
        for name in sorted(rows):
            if views[name].parent == parent:
                yield depth, views[name]
                yield from below(name, depth + 1)

    yield from below("", 0)


def _held(snapshot: ClusterSnapshot) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """Return queue → resource → what its placed pods hold, and what its pods that are being deleted hold.

    Descendants are included.
    """
    parents = {queue.name: queue.parent for queue in snapshot.queues}
    held, leaving = ({name: dict.fromkeys(RESOURCES, 0.0) for name in parents} for _ in range(2))
    groups = {(group.namespace, group.name): group.queue for group in snapshot.pod_groups}
    binds = {(request.namespace, request.pod): request.node for request in snapshot.bind_requests}
    memory = {node.name: node.gpu_memory for node in snapshot.nodes}
    for obj in snapshot.of("Pod"):
        pod = PodInfo.of(obj)
        key = (pod.view.namespace, pod.view.name)
        state = pod_state(pod, False, key in binds)
        if state not in (PodState.ALLOCATED, PodState.RELEASING):
            continue
        found = held if state is PodState.ALLOCATED else leaving
        node = pod.view.node or binds.get(key, "")
        amounts = quota_of(pod.requests, memory.get(node), allocated=True)
        for name in queue_path(groups.get((pod.view.namespace, pod.view.pod_group), ""), parents):
            for resource, amount in amounts.items():
                found[name][resource] += amount
    return held, leaving


def _metric(snapshot: ClusterSnapshot, name: str, factor: float) -> dict[str, float]:
    """Return queue → value; queue_metadata_name is the Queue's name where a scheduler writes it (0.16 and later)."""
    rows = samples(snapshot.metrics, name)
    return {row.get("queue_metadata_name") or row.get("queue_name", ""): value * factor for row, value in rows}
