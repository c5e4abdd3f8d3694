"""Workloads that KAI must start after an upgrade, and those that must keep running during one.

Smoke tests: a pod without a GPU, a gang, a pod with a whole GPU, and a fraction. The load: a gang, two fractions on
one GPU, and a pod with a whole GPU. Each uses free resources only, so nothing is evicted; what does not fit is skipped,
with the reason. A rehearsal that skipped one because the GPUs are busy or have failed is not proven.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lab.config import LabSpec
from lab.errors import LabError
from lab.kai import VersionLine
from lab.objects.isolation_labels import NODE_LABEL
from lab.snapshot.node_info import FreeGpus, NodeInfo, read_node_infos
from lab.text import count
from lab.workloads.controllers import APP_LABEL, job, pod_group
from lab.workloads.modifiers import in_group
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod, fraction_pod, gpu_pod

FRACTION = 0.1
"""Of a GPU; small, to fit beside others."""

LOAD_FRACTIONS = (0.5, 0.25)
"""Of the GPU that the load shares."""

SLUG = "trial"
PREFIX = f"t-{SLUG}-"
"""Of the names of the namespaces with smoke tests."""

WHOLE = "load-gpu"
"""The load's pod with a whole GPU."""

_MEMBERS = 2
"""Pods of a gang."""

_SECONDS = 120.0

Json = dict[str, Any]


@dataclass(frozen=True)
class SmokeTest:
    """Result of one workload: cpu, gang, gpu or fraction; of the load also fractions."""

    name: str
    seconds: float | None = None
    """From its creation until it was Ready; None: it was not."""
    problem: str = ""
    skipped: str = ""
    """Why it was not run."""
    unproven: bool = False
    """It was skipped although the cluster has what it needs, so that nothing is known about such pods."""


def smoke_test_queue(spec: LabSpec) -> str:
    """A leaf queue for the pods: the first that allows GPUs."""
    leaves = [queue for queue in spec.queues if queue.name in spec.leaf_queues]
    return next((queue.name for queue in leaves if queue.gpu.limit), leaves[0].name)


def run_smoke_tests(place: WorkloadNamespace, queue: str, line: VersionLine, *, sharing: bool) -> tuple[SmokeTest, ...]:
    """Run the workloads one after the other in a leaf queue, and delete each.

    ``sharing`` is whether that KAI schedules fractions.
    """
    workloads = {
        "cpu": [cpu_pod("trial-cpu", queue=queue)],
        "gang": gang("trial-gang", queue, line, place.namespace),
        "gpu": [gpu_pod("trial-gpu", queue=queue)],
        "fraction": [fraction_pod("trial-fraction", fraction=FRACTION, queue=queue)],
    }
    infos = _nodes(place)
    # Unhealthy GPUs are in a node's capacity, but not allocatable.
    free, total = FreeGpus.of(infos), sum(info.capacity_gpus for info in infos)
    skipped = {skip.name: skip for skip in _skipped(free, total, sharing=sharing)}
    return tuple(skipped.get(name) or _run(place, name, docs) for name, docs in workloads.items())


def start_load(place: WorkloadNamespace, queue: str, line: VersionLine, *, sharing: bool) -> tuple[SmokeTest, ...]:
    """Start the load in a leaf queue, one workload after the other: fractions that start at once can lose their GPU."""
    found = [_start(place, "gang", gang("load-gang", queue, line, place.namespace))]
    infos = _nodes(place)
    free, total = FreeGpus.of(infos), sum(info.capacity_gpus for info in infos)
    lacking = "no node has GPUs" if not total else f"of {count(total, 'GPU')} none is free"
    if not sharing:
        found.append(SmokeTest("fractions", skipped="gpuSharing is off"))
    elif not free.gpus and free.share < sum(LOAD_FRACTIONS):
        found.append(SmokeTest("fractions", skipped=lacking, unproven=bool(total)))
    else:
        # without a dot in the name, which KAI before 0.16.5 puts into the name of a volume (dotted-pod-names)
        pods = (fraction_pod(f"load-{n}", fraction=part, queue=queue) for n, part in enumerate(LOAD_FRACTIONS, 1))
        found.append(_start(place, "fractions", [*pods]))
    if FreeGpus.of(_nodes(place)).gpus:
        found.append(_start(place, "gpu", [gpu_pod(WHOLE, queue=queue)]))
    else:
        why = lacking if not free.gpus else "no second GPU is free"
        found.append(SmokeTest("gpu", skipped=why, unproven=bool(total)))
    return tuple(found)


def gang(name: str, queue: str, line: VersionLine, namespace: str) -> list[Json]:
    """A gang of two pods: a Job, for which the pod-grouper creates a PodGroup; before 0.14.1 a PodGroup with pods."""
    pod = cpu_pod(name, queue=queue)
    if "batch_gang" in line.features:
        return [job(name, pod, pods=_MEMBERS, minimum=_MEMBERS)]
    group = f"{name}-{namespace}"
    members = [in_group(cpu_pod(f"{name}-{number}", queue=queue), group) for number in range(_MEMBERS)]
    return [pod_group(group, queue=queue, minimum=_MEMBERS), *members]


def _nodes(place: WorkloadNamespace) -> tuple[NodeInfo, ...]:
    """The nodes that this KAI schedules to: on the host without those that are dedicated to a tenant."""
    infos = read_node_infos(place.cluster)
    return tuple(info for info in infos if place.tenant or NODE_LABEL not in info.node.labels)


def _skipped(free: FreeGpus, total: int, *, sharing: bool) -> Iterator[SmokeTest]:
    if not free.gpus:
        why = f"of {count(total, 'GPU')} none is free" if total else "no node has GPUs"
        yield SmokeTest("gpu", skipped=why, unproven=bool(total))
    if not sharing:
        yield SmokeTest("fraction", skipped="gpuSharing is off")
    elif not free.gpus and free.share < FRACTION:
        why = f"no GPU has {FRACTION:g} free" if total else "no node has GPUs"
        yield SmokeTest("fraction", skipped=why, unproven=bool(total))


def _run(place: WorkloadNamespace, name: str, docs: list[Json]) -> SmokeTest:
    """Start a workload, and delete it when it is Ready."""
    found = _start(place, name, docs)
    if not found.problem:
        try:
            place.empty("Job")
        except LabError as error:
            return SmokeTest(name, problem=error.what)
    return found


def _start(place: WorkloadNamespace, name: str, docs: list[Json]) -> SmokeTest:
    """Create the pods of a workload one after the other, those of a gang at once, and wait until all are Ready."""
    start = time.monotonic()
    try:
        if any(doc["kind"] != "Pod" for doc in docs):
            place.submit(*docs)
            _ready(place, *(_members(place, docs[0]) or [doc["metadata"]["name"] for doc in docs[1:]]))
        else:
            for doc in docs:
                place.submit(doc)
                _ready(place, doc["metadata"]["name"])
    except LabError as error:
        return SmokeTest(name, problem=error.what)
    return SmokeTest(name, time.monotonic() - start)


def _ready(place: WorkloadNamespace, *names: str) -> None:
    place.inside(lambda view: view.ready, *names, timeout=_SECONDS, what="Ready")


def _members(place: WorkloadNamespace, doc: Json) -> list[str]:
    """Names of the pods of a Job; empty for other objects. Raises WaitTimeout: it has created none."""
    if doc["kind"] != "Job":
        return []
    pods = place.cluster.wait(
        "Pod",
        lambda found: len(found) >= _MEMBERS,
        namespace=place.namespace,
        labels=f"{APP_LABEL}={doc['metadata']['name']}",
        timeout=_SECONDS,
        what=f"Job {doc['metadata']['name']} has created its pods",
    )
    return [pod["metadata"]["name"] for pod in pods]
