"""The session of a cluster: nodes, workloads and queues of a snapshot as KAI's scheduler sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from lab.explain.selectors import node_mismatch, tolerated
from lab.fair_share import QueueClaim
from lab.kai import VersionLine, line_of
from lab.kai.names import GPU_RESOURCE, KAI_SCHEDULER, SUBGROUP_LABEL
from lab.objects.fields import Obj, labels_of, parts, whole
from lab.objects.kai import QueueShare, queue_path
from lab.objects.views import NodeView
from lab.prediction.model import NON_PREEMPTIBLE, Job, Place, Status, Task, Worker
from lab.prediction.queues import QueueStates
from lab.prediction.session import NEW_GROUP, WAITING, SchedulingSession
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.gpu_allocation import GpuAllocation, counted_memory
from lab.snapshot.kai_installation import KaiInstallation, installation
from lab.snapshot.pod_info import PodInfo
from lab.snapshot.queue_claims import (
    PodState,
    cluster_total,
    in_default_pool,
    pod_state,
    queue_claims,
    quota_of,
    smallest_gpu,
    usable,
)

DEFAULT_LINE = "0.16.8"
_ADDED_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
TASK_PRIORITY = "kai.scheduler/task-priority"


class NodeFilter:
    """Which nodes a pod's selectors, affinity and tolerations allow, computed once for equal pods."""

    def __init__(self, nodes: tuple[NodeView, ...]) -> None:
        self.nodes = nodes
        self._found: dict[str, frozenset[str]] = {}

    def allowed(self, spec: Obj) -> frozenset[str]:
        """Return the usable nodes that a pod spec allows."""
        key = repr([spec.get(name) for name in ("nodeSelector", "affinity", "tolerations")])
        if key not in self._found:
            self._found[key] = frozenset(node.name for node in self.nodes if not _mismatch(spec, node))
        return self._found[key]

    def mismatches(self, spec: Obj) -> dict[str, str]:
        """Return node → why it is not allowed."""
        return {node.name: why for node in self.nodes if (why := _mismatch(spec, node))}


@dataclass(frozen=True)
class World:
    """A cluster as input of sessions."""

    machines: tuple[Worker, ...]
    jobs: tuple[Job, ...]
    places: Mapping[str, Place]
    claims: tuple[QueueClaim, ...]
    total: Mapping[str, float]
    nodes: NodeFilter
    priority_classes: Mapping[str, int]
    scheduler: str
    line: VersionLine
    queue_key: str
    strategy: Mapping[str, str] = field(default_factory=dict)
    smallest_gpu: int | None = None
    kai: KaiInstallation | None = None

    def queues(self) -> QueueStates:
        """Return the queues with their fair shares; nothing is allocated in them yet."""
        return QueueStates(self.claims, self.total)

    def session(self) -> SchedulingSession:
        """Return a session of this cluster."""
        return SchedulingSession(self.machines, self.jobs, self.queues(), self.places)

    def with_jobs(self, new: Iterable[Job], changes: Mapping[str, Mapping[str, QueueShare]] | None = None) -> World:
        """Return the cluster with further jobs whose tasks wait.

        Args:
            new: the jobs.
            changes: queue → resource → other quota, limit and weight.
        """
        added = tuple(new)
        claims = self._requesting((job, task, 1) for job in added for task in job.tasks)
        changed = (replace(one, shares={**one.shares, **(changes or {}).get(one.name, {})}) for one in claims)
        return replace(self, jobs=(*self.jobs, *added), claims=tuple(changed))

    def after(self, session: SchedulingSession) -> World:
        """Return the cluster once the pods that a session evicted are gone.

        Their workloads create them again, but nothing does so for a pod by itself, also one that consolidation moves.
        What a session promised to a task is not kept: the next cycle decides anew.
        """
        places: dict[str, Place] = {}
        jobs: list[Job] = []
        lost: list[tuple[Job, Task, int]] = []
        for job in self.jobs:
            kept = []
            for task in job.tasks:
                before, now = self.places.get(task.id, WAITING).status, session.place(task)
                if before is Status.RUNNING and now.status is not Status.RUNNING and not job.recreated:
                    lost.append((job, task, -1))
                elif before is not Status.RELEASING:
                    kept.append(task)
                if now.status is Status.RUNNING:
                    places[task.id] = now._replace(groups=tuple(map(_renamed, now.groups)), was=None)
            if kept:
                jobs.append(replace(job, tasks=tuple(kept)))
        return replace(self, jobs=tuple(jobs), places=places, claims=self._requesting(lost))

    def _requesting(self, tasks: Iterable[tuple[Job, Task, int]]) -> tuple[QueueClaim, ...]:
        """Return the queues' claims with what tasks of jobs request added (1) or removed (-1)."""
        parents = {claim.name: claim.parent for claim in self.claims}
        request = {claim.name: dict(claim.request) for claim in self.claims}
        for job, task, sign in tasks:
            amounts = quota_of(task.requests, self.smallest_gpu, allocated=False)
            for name in queue_path(job.queue, parents):
                for resource, amount in amounts.items():
                    request[name][resource] += sign * amount
        return tuple(replace(claim, request=request[claim.name]) for claim in self.claims)


def _renamed(group: str) -> str:
    """The name of a GPU group in a further session, which names its own anew."""
    return f"{group}'" if group.startswith(NEW_GROUP) else group


def _mismatch(spec: Obj, node: NodeView) -> str:
    if not usable(node):
        return "cordoned" if node.unschedulable else "not Ready"
    if why := node_mismatch(spec, node):
        return why
    tolerations = spec.get("tolerations") or []
    taints = (taint for taint in node.taints if not taint.endswith(":PreferNoSchedule"))
    return next((f"taint {taint}" for taint in taints if not tolerated(taint, tolerations)), "")


def read_world(snapshot: ClusterSnapshot) -> World:
    """Return the cluster of a snapshot."""
    kai = installation(snapshot)
    scheduler = kai.scheduler_name if kai else KAI_SCHEDULER
    served = (node for node in snapshot.nodes if kai is None or in_default_pool(node, kai.pool_key, kai.pools))
    nodes = NodeFilter(tuple(sorted(served, key=lambda node: node.name)))
    classes = {str(parts(obj)[0].get("name", "")): int(obj.get("value") or 0) for obj in snapshot.of("PriorityClass")}
    pods = GpuAllocation.of(snapshot).pods
    specs = {(parts(o)[0].get("namespace", ""), parts(o)[0].get("name", "")): o for o in snapshot.of("Pod")}
    groups: dict[tuple[str, str], list[PodInfo]] = {}
    known = {(group.namespace, group.name) for group in snapshot.pod_groups}
    foreign: list[PodInfo] = []
    for pod in pods:
        key = (pod.view.namespace, pod.view.pod_group)
        if key in known and pod.view.scheduler_name == scheduler:
            groups.setdefault(key, []).append(pod)
        elif pod.bound:
            foreign.append(pod)
    machines = tuple(_machine(node, foreign) for node in nodes.nodes)
    places: dict[str, Place] = {}
    jobs = []
    for obj in snapshot.of("PodGroup"):
        meta, spec, _ = parts(obj)
        name = (str(meta.get("namespace", "")), str(meta.get("name", "")))
        jobs.append(_job(meta, spec, groups.get(name, []), specs, classes, nodes, places))
    line = kai.line if kai else line_of(DEFAULT_LINE)
    return World(
        machines,
        tuple(jobs),
        places,
        queue_claims(snapshot),
        cluster_total(snapshot),
        nodes,
        classes or dict(line.priority_classes),
        scheduler,
        line,
        kai.queue_key if kai else line.keys.queue,
        _strategy(snapshot),
        smallest_gpu(snapshot),
        kai,
    )


def _machine(node: NodeView, foreign: Iterable[PodInfo]) -> Worker:
    amounts = {**node.allocatable, "cpu": node.allocatable.get("cpu", 0.0) * 1000}
    amounts.setdefault("pods", 110.0)
    for pod in foreign:
        if pod.view.node == node.name:
            for name, amount in {**pod.requests.amounts, "pods": 1.0}.items():
                # KAI counts the GPU of a reservation pod by its GPU group.
                if amount and not (name == GPU_RESOURCE and pod.is_reservation):
                    amounts[name] = amounts.get(name, 0.0) - amount
    return Worker(node.name, amounts, counted_memory(node.gpu_memory))


def _job(
    meta: Obj,
    spec: Obj,
    pods: Iterable[PodInfo],
    objects: Mapping[tuple[str, str], Obj],
    classes: Mapping[str, int],
    nodes: NodeFilter,
    places: dict[str, Place],
) -> Job:
    """Return a PodGroup as a job, and enter the places of its pods."""
    identity = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
    tasks = []
    for pod in pods:
        obj = objects[pod.view.namespace, pod.view.name]
        pod_meta, pod_spec, _ = parts(obj)
        bound_soon = bool(pod.view.node) and not pod_spec.get("nodeName")
        state = pod_state(pod, bool(pod_spec.get("schedulingGates")), bound_soon)
        if state is PodState.OTHER:
            continue
        if state is PodState.ALLOCATED:
            places[pod.key] = Place(Status.RUNNING, pod.view.node, pod.view.gpu_groups)
        elif state is PodState.RELEASING:
            places[pod.key] = Place(Status.RELEASING, pod.view.node, pod.view.gpu_groups)
        tasks.append(
            Task(
                pod.key,
                identity,
                pod.requests,
                nodes.allowed(pod_spec),
                str(pod_meta.get("creationTimestamp") or ""),
                pod.view.uid,
                whole(labels_of(pod_meta).get(TASK_PRIORITY)),
                pod.view.labels.get(SUBGROUP_LABEL, ""),
                constraints_of(pod_spec),
            )
        )
    minimum = _minimum(spec)
    if set(minimum) == {""}:
        tasks = [replace(task, subgroup="") for task in tasks]
    priority = classes.get(str(spec.get("priorityClassName") or ""), 50)
    declared = str(spec.get("preemptibility") or "").lower()
    owner = next(iter(meta.get("ownerReferences") or []), {"kind": "PodGroup", "name": identity})
    return Job(
        identity,
        str(spec.get("queue") or ""),
        tuple(tasks),
        minimum,
        priority,
        declared == "preemptible" if declared else priority < NON_PREEMPTIBLE,
        str(meta.get("creationTimestamp") or ""),
        f"{owner['kind']} {owner['name']}",
        recreated=owner["kind"] != "Pod",
    )


def constraints_of(spec: Obj) -> str:
    """What KAI's signature of a pod's constraints is made of (pod_info/scheduling_constraints_signature.go).

    Without what the API server adds to pods: a template has the same text as its pod.
    """
    tolerations = [row for row in spec.get("tolerations") or [] if row.get("key") not in _ADDED_TOLERATIONS]
    containers = spec.get("containers") or []
    ports = [port["hostPort"] for one in containers for port in one.get("ports") or [] if port.get("hostPort")]
    claims = [row["persistentVolumeClaim"] for row in spec.get("volumes") or [] if row.get("persistentVolumeClaim")]
    plain = [spec.get(name) for name in ("nodeSelector", "affinity", "priorityClassName", "topologySpreadConstraints")]
    return repr([[row or "" for row in plain], tolerations, ports, claims])


def _minimum(spec: Obj) -> dict[str, int]:
    """Return subgroup → minMember; of nested subgroups the innermost."""
    subgroups = spec.get("subGroups") or []
    parents = {str(row.get("parent") or "") for row in subgroups}
    leaves = {str(r["name"]): max(1, int(r.get("minMember") or 1)) for r in subgroups if r["name"] not in parents}
    return leaves or {"": max(1, int(spec.get("minMember") or 1))}


def _strategy(snapshot: ClusterSnapshot) -> dict[str, str]:
    """Return the placement strategies of the shard ``default``, or of the only one."""
    shards = snapshot.of("SchedulingShard")
    chosen = next((o for o in shards if parts(o)[0].get("name") == "default"), shards[0] if shards else {})
    row = parts(chosen)[1].get("placementStrategy") or {}
    return {name: str(row[name]) for name in ("gpu", "cpu") if row.get(name)}
