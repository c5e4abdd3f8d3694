"""Whether KAI would run manifests on a cluster as it is now, for ``kailab can-run``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from lab.errors import SpecError
from lab.kube import Cluster
from lab.lint.document import ManifestDocument
from lab.prediction import Answer, answers, read_world, workloads
from lab.snapshot.cluster_snapshot import ClusterSnapshot, take

KINDS = (
    "Pod",
    "Node",
    "Namespace",
    "Deployment",
    "PriorityClass",
    "PodGroup",
    "BindRequest",
    "Queue",
    "SchedulingShard",
)
"""The kinds that the answer needs."""


@dataclass(frozen=True)
class CanRun:
    """The answers for all workloads of some files."""

    at: datetime
    """Time at which the cluster was read (UTC)."""
    runs: bool
    """Whether all of them run."""
    answers: tuple[Answer, ...]


def can_run(cluster: Cluster, documents: Iterable[ManifestDocument], namespace: str = "default") -> CanRun:
    """Return whether KAI would run the workloads of manifests; applies nothing.

    Args:
        cluster: any cluster with KAI.
        documents: of manifest files.
        namespace: of manifests that name none.

    Raises:
        SpecError: no manifest has pods that KAI schedules.
        ApiFailed: the cluster does not answer.
    """
    return judge(take(cluster, kinds=KINDS), documents, namespace)


def judge(snapshot: ClusterSnapshot, documents: Iterable[ManifestDocument], namespace: str = "default") -> CanRun:
    """Return the answers for a cluster that was read before. Raises SpecError as ``can_run``."""
    world = read_world(snapshot)
    found = workloads(documents, world, namespace)
    if not found:
        raise SpecError(
            f"no manifest has pods that KAI schedules: none sets schedulerName: {world.scheduler}",
            fix=f"set spec.schedulerName: {world.scheduler} in the pods, or name another file",
        )
    results = answers(world, found)
    return CanRun(snapshot.at, all(answer.runs for answer in results), results)
