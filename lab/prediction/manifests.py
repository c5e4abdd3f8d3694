"""Workloads of manifests as jobs: the PodGroups that KAI's pod-grouper would create, with their pods.

Source: pkg/podgrouper/podgrouper/plugins (defaultgrouper, deployment, job, kubeflow, …), KAI 0.16.8.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.lint.document import ManifestDocument
from lab.objects.fields import Obj, annotations_of, labels_of, parts, whole
from lab.objects.pod_requests import PodRequests
from lab.prediction.model import NON_PREEMPTIBLE, Job, Task
from lab.prediction.reading import TASK_PRIORITY, World

NEW = "9999"
"""Creation time of what does not exist yet: after everything else."""


@dataclass(frozen=True)
class Pods:
    """Pods of one template in a workload."""

    template: Obj
    count: int


@dataclass(frozen=True)
class Workload:
    """A manifest whose pods KAI schedules."""

    title: str
    """Kind and ``namespace/name``."""
    file: str
    jobs: tuple[Job, ...]
    template: Obj
    """Its first pod template."""
    notes: tuple[str, ...] = ()
    """Parts of it that the model leaves out."""

    @property
    def tasks(self) -> int:
        return sum(len(job.tasks) for job in self.jobs)


def workloads(documents: Iterable[ManifestDocument], world: World, namespace: str) -> tuple[Workload, ...]:
    """Return the workloads among manifests whose pods KAI schedules.

    Args:
        documents: of one or more files.
        world: the cluster.
        namespace: of manifests that name none.
    """
    found = (_workload(one.data, one.file, world, namespace) for one in documents)
    return tuple(workload for workload in found if workload is not None)


def _workload(obj: Obj, file: str, world: World, namespace: str) -> Workload | None:
    rows = [row for row in _pods(obj) if row.count > 0]
    if not rows or str(parts(rows[0].template)[1].get("schedulerName") or "") != world.scheduler:
        return None
    kind, meta = str(obj.get("kind") or ""), parts(obj)[0]
    space = str(meta.get("namespace") or namespace)
    name = str(meta.get("name") or meta.get("generateName") or "unnamed")
    owner = _owner(obj)
    first = rows[0].template
    queue = _label(owner, first, world.queue_key) or "default-queue"
    pods = [(row.template, number) for row in rows for number in range(row.count)]
    default = {"Deployment": "inference", "Notebook": "build"}.get(kind, "train")
    priority, preemptible = _priority(owner, first, world, default)
    alone = kind == "Deployment"
    least = _minimum(obj, len(pods))

    def job(identity: str, members: list[tuple[Obj, int]], minimum: int) -> Job:
        tasks = tuple(_task(t, f"{identity}-{at:05}", identity, world) for at, (t, _) in enumerate(members))
        return Job(
            identity,
            queue,
            tasks,
            {"": minimum},
            priority,
            preemptible,
            NEW,
            f"{NEW}-{identity}",
            f"{kind} {space}/{name}",
        )

    identity = f"{space}/{kind.lower()}-{name}"
    jobs = (
        tuple(job(f"{identity}-{at:05}", [pod], 1) for at, pod in enumerate(pods))
        if alone
        else (job(identity, pods, least),)
    )
    return Workload(f"{kind} {space}/{name}", file, jobs, first, tuple(_notes(obj, first)))


def _task(template: Obj, name: str, job: str, world: World) -> Task:
    meta, spec, _ = parts(template)
    rank = whole(labels_of(meta).get(TASK_PRIORITY))
    return Task(name, job, PodRequests.of(template), world.nodes.allowed(spec), NEW, name, rank)


def _owner(obj: Obj) -> Obj:
    """Return the metadata whose labels the pod-grouper reads first."""
    if obj.get("kind") == "CronJob":
        return parts(_at(obj, "spec.jobTemplate") or {})[0]
    return parts(obj)[0]


def _label(owner: Obj, template: Obj, key: str) -> str:
    return labels_of(owner).get(key) or labels_of(parts(template)[0]).get(key) or "" if key else ""


def _priority(owner: Obj, template: Obj, world: World, default: str) -> tuple[int, bool]:
    keys = world.line.keys
    named = _label(owner, template, keys.priority_class) or str(parts(template)[1].get("priorityClassName") or "")
    priority = world.priority_classes.get(named, world.priority_classes.get(default, 50))
    declared = _label(owner, template, keys.preemptibility).lower()
    return priority, declared == "preemptible" if declared else priority < NON_PREEMPTIBLE


# Where the pods of each kind are, and how many

_REPLICATED = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}


def _pods(obj: Obj) -> Iterator[Pods]:
    kind, spec = obj.get("kind"), parts(obj)[1]
    if kind == "Pod":
        yield Pods(obj, 1)
    elif kind in _REPLICATED:
        rows = spec.get(_REPLICATED[str(kind)]) or {}
        for name in sorted(rows, key=lambda one: (one not in ("Master", "Chief", "Launcher"), one)):
            yield Pods(rows[name].get("template") or {}, _number(rows[name].get("replicas"), 1))
    elif kind == "JobSet":
        for row in spec.get("replicatedJobs") or []:
            inner = _at(row, "template.spec") or {}
            yield Pods(inner.get("template") or {}, _number(row.get("replicas"), 1) * _parallel(inner))
    elif kind == "LeaderWorkerSet":
        workers = _at(spec, "leaderWorkerTemplate.workerTemplate") or {}
        leader = _at(spec, "leaderWorkerTemplate.leaderTemplate") or workers
        size = _number(_at(spec, "leaderWorkerTemplate.size"), 1)
        yield Pods(leader, 1)
        yield Pods(workers, size - 1)
    elif kind in ("RayCluster", "RayJob", "RayService"):
        cluster = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}.get(str(kind))
        inner = (spec.get(cluster) or {}) if cluster else spec
        yield Pods(_at(inner, "headGroupSpec.template") or {}, 1)
        for row in inner.get("workerGroupSpecs") or []:
            yield Pods(row.get("template") or {}, _number(row.get("replicas"), 1) * _number(row.get("numOfHosts"), 1))
    elif kind == "CronJob":
        inner = _at(spec, "jobTemplate.spec") or {}
        yield Pods(inner.get("template") or {}, _parallel(inner))
    elif kind == "Job":
        yield Pods(spec.get("template") or {}, _parallel(spec))
    elif parts(spec.get("template") or {})[1].get("containers"):
        yield Pods(spec["template"], _number(spec.get("replicas"), 1))


def _parallel(spec: Obj) -> int:
    """Return how many pods a Job runs at the same time."""
    at_once, in_all = _number(spec.get("parallelism"), 1), spec.get("completions")
    return at_once if in_all is None else min(at_once, _number(in_all, at_once))


def _minimum(obj: Obj, pods: int) -> int:
    """Return how many pods start together."""
    kind, spec, meta = obj.get("kind"), parts(obj)[1], _owner(obj)
    if kind in _REPLICATED:
        return _number(_at(spec, "runPolicy.schedulingPolicy.minAvailable"), pods)
    if kind in ("JobSet", "LeaderWorkerSet", "RayCluster", "RayJob", "RayService"):
        return pods
    if kind in ("Job", "CronJob"):
        return max(1, _number(annotations_of(meta).get("kai.scheduler/batch-min-member"), 1))
    return 1


def _at(obj: Any, path: str) -> Any:
    return functools.reduce(
        lambda here, key: here.get(key) if isinstance(here, Mapping) else None, path.split("."), obj
    )


def _number(value: Any, default: int) -> int:
    found = whole(value)
    return default if found is None else found


def _notes(obj: Obj, template: Obj) -> Iterator[str]:
    """Yield what the model leaves out of this workload."""
    meta, spec, _ = parts(template)
    affinity = spec.get("affinity") or {}
    if affinity.get("podAffinity") or affinity.get("podAntiAffinity"):
        yield "affinity between pods is not modelled"
    if spec.get("topologySpreadConstraints"):
        yield "topologySpreadConstraints are not modelled"
    if spec.get("resourceClaims"):
        yield "ResourceClaims (DRA) are not modelled"
    if any(volume.get("persistentVolumeClaim") for volume in spec.get("volumes") or []):
        yield "volumes may limit the nodes further"
    annotations = {**annotations_of(meta), **annotations_of(parts(obj)[0])}
    if any(key.startswith("kai.scheduler/topology") for key in annotations):
        yield "topology constraints are not modelled"
    if obj.get("kind") in ("JobSet", "LeaderWorkerSet", "RayCluster", "RayJob", "RayService"):
        yield f"the subgroups of a {obj.get('kind')} count as one gang of all its pods"
