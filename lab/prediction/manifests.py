"""Workloads of manifests as jobs: the PodGroups that KAI's pod-grouper would create, with their pods.

Source: pkg/podgrouper/podgrouper/plugins (defaultgrouper, deployment, job, kubeflow, …), KAI 0.16.8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lab.lint.document import ManifestDocument
from lab.lint.model import Manifest
from lab.lint.workloads import PodTemplate, mapping, value_at
from lab.objects.fields import Obj, annotations_of, labels_of, parts, whole
from lab.objects.pod_requests import PodRequests
from lab.prediction.model import NON_PREEMPTIBLE, Job, Task
from lab.prediction.reading import TASK_PRIORITY, World, constraints_of

NEW = "9999"
"""Creation time of what does not exist yet: after everything else."""
_LEADERS = {"Master", "Chief", "Launcher", "leaderTemplate"}
"""Replica types whose pods precede the others."""
_KNATIVE = {"Service", "Configuration", "Revision"}
_UNCOUNTED = {"DaemonSet", "TrainJob", "Workflow", "WorkflowTemplate", "CronWorkflow", *_KNATIVE}
"""Kinds whose manifests do not give the number of pods at a time."""


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
    used: Counter[str] = Counter()
    found = (_workload(Manifest(one.data, one), world, namespace, used) for one in documents)
    return tuple(workload for workload in found if workload is not None)


def _workload(manifest: Manifest, world: World, namespace: str, used: Counter[str]) -> Workload | None:
    rows = sorted(enumerate(manifest.pods), key=lambda row: _LEADERS.isdisjoint(row[1].spec_at))
    rows = [(at, pod) for at, pod in rows if _count(manifest, pod) > 0]
    at = next((at for at, pod in rows if pod.scheduled_by(world.scheduler)), None)
    if at is None:
        return None
    manifest = replace(manifest, number=at)
    space, name = str(manifest.meta.get("namespace") or namespace), manifest.name or "unnamed"
    title, identity = f"{manifest.kind} {space}/{name}", f"{space}/{manifest.kind.lower()}-{name}"
    used[identity] += 1
    if used[identity] > 1:  # with generateName, several have the same
        identity = f"{identity}-{used[identity]}"
    queue = _label(manifest, world.queue_key) or "default-queue"
    priority, preemptible = _priority(manifest, world)
    pods = [_pod(pod) for _, pod in rows for _ in range(_count(manifest, pod))]
    first = _pod(manifest.pods[at])

    def job(name: str, members: list[Obj], minimum: int) -> Job:
        tasks = tuple(_task(pod, f"{name}-{at:05}", name, world) for at, pod in enumerate(members))
        alone = manifest.kind == "Pod"
        return Job(name, queue, tasks, {"": minimum}, priority, preemptible, NEW, title, recreated=not alone)

    jobs = (
        tuple(job(f"{identity}-{at:05}", [pod], 1) for at, pod in enumerate(pods))
        if manifest.kind == "Deployment"
        else (job(identity, pods, _minimum(manifest, len(pods), world)),)
    )
    return Workload(title, manifest.document.file, jobs, first, tuple(_notes(manifest, first, pods)))


def _pod(pod: PodTemplate) -> Obj:
    """Return the pod of a template; an Argo template has one container, under its own key."""
    own = [pod.spec[key] for key in ("container", "script") if isinstance(pod.spec.get(key), dict)]
    spec = {"containers": own, **pod.spec}
    return {"metadata": {**pod.meta, "labels": pod.labels, "annotations": pod.annotations}, "spec": spec}


def _task(template: Obj, name: str, job: str, world: World) -> Task:
    meta, spec, _ = parts(template)
    rank = whole(labels_of(meta).get(TASK_PRIORITY))
    nodes, constraints = world.nodes.allowed(spec), constraints_of(spec)
    return Task(name, job, PodRequests.of(template), nodes, NEW, name, rank, constraints=constraints)


def _label(manifest: Manifest, key: str) -> str:
    found = manifest.label(key) if key else None
    return found[1] if found else ""


def _priority(manifest: Manifest, world: World) -> tuple[int, bool]:
    keys, pod = world.line.keys, manifest.pod
    named = _label(manifest, keys.priority_class) or str(pod.spec.get("priorityClassName") or "" if pod else "")
    default = manifest.workload.priority if manifest.workload else "train"
    priority = world.priority_classes.get(named, world.priority_classes.get(default, 50))
    declared = _label(manifest, keys.preemptibility).lower()
    return priority, declared == "preemptible" if declared else priority < NON_PREEMPTIBLE


def _count(manifest: Manifest, pod: PodTemplate) -> int:
    """Return how many pods of a template run at the same time: by the mappings around it, the innermost first."""
    if "submitterPodTemplate" in pod.spec_at:
        return 0  # a RayJob's, which starts after its cluster
    if manifest.kind == "LeaderWorkerSet":
        size = _number(value_at(manifest.spec, ("leaderWorkerTemplate", "size")), 1)
        return 1 if "leaderTemplate" in pod.spec_at else size - (len(manifest.pods) > 1)
    around = [mapping(value_at(manifest.obj, pod.spec_at[:n])) for n in range(len(pod.spec_at) - 1, -1, -1)]
    replicas = next((here["replicas"] for here in around if "replicas" in here), pod.spec.get("instances"))
    hosts = next((here["numOfHosts"] for here in around if "numOfHosts" in here), 1)
    jobs = [here for here in around if "template" in here and ("parallelism" in here or "completions" in here)]
    return _number(replicas, 1) * _number(hosts, 1) * (_parallel(jobs[0]) if jobs else 1)


def _parallel(spec: Obj) -> int:
    """Return how many pods a Job runs at the same time."""
    at_once, in_all = _number(spec.get("parallelism"), 1), spec.get("completions")
    return at_once if in_all is None else min(at_once, _number(in_all, at_once))


def _minimum(manifest: Manifest, pods: int, world: World) -> int:
    """Return how many pods start together."""
    kind, keys = manifest.workload, world.line.keys
    if kind is None:
        return 1
    gang = kind.own_gang and kind.grouped_by(world.line, manifest.api.rpartition("/")[2])
    least = manifest.annotations.get(keys.min_member) if kind.min_member and keys.min_member else None
    if kind.minimum and gang:
        least = value_at(manifest.obj, tuple(kind.minimum.split(".")))
    return max(1, _number(least, pods if gang else 1))


def _number(value: object, default: int) -> int:
    found = whole(value)
    return default if found is None else found


def _notes(manifest: Manifest, template: Obj, pods: Iterable[Obj]) -> Iterator[str]:
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
    annotations = {**annotations_of(meta), **manifest.annotations}
    if any(key.startswith("kai.scheduler/topology") for key in annotations):
        yield "topology constraints are not modelled"
    if any(not parts(pod)[1].get("containers") for pod in pods):
        yield "pods whose manifest lists no containers count as ones without requests"
    kind = manifest.workload
    if manifest.kind in _UNCOUNTED:
        yield f"the manifest of a {manifest.kind} does not give the number of pods: one per template counts"
    if kind and kind.own_gang and not kind.minimum:
        yield f"the subgroups of a {manifest.kind} count as one gang of all its pods"
        if _number(manifest.spec.get("replicas"), 1) > 1:
            yield f"one of the {manifest.spec['replicas']} replicas counts"
