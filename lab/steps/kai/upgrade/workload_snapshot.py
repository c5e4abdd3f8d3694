"""Snapshots of the workloads in a cluster, and their differences: lost, restarted, moved, on another GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lab.kube import Cluster
from lab.objects.fields import labels_of, owner_of
from lab.objects.kai import PodGroupView, QueueView, is_reservation
from lab.objects.views import PodView
from lab.steps import helm_release
from lab.steps.kai.release import NAMESPACE, RELEASE
from lab.steps.kai.upgrade import smoke_test
from lab.steps.queues import TEST_LABEL

Json = Mapping[str, Any]

_SETTINGS = ("parent", "priority", "gpu", "cpu", "memory")


@dataclass(frozen=True)
class RunningPod:
    """A pod that is bound and has not ended."""

    title: str
    """``namespace/name``."""
    uid: str
    node: str
    restarts: int
    """Of all its containers."""
    gpu_groups: tuple[str, ...]
    """Its shared GPUs; empty for whole GPUs."""
    gpu_uuids: tuple[str, ...]
    """UUIDs of those GPUs, from their reservation pods."""
    pod_group: str
    """``namespace/name`` of its PodGroup; empty without one."""


@dataclass(frozen=True)
class WorkloadSnapshot:
    """The workloads of a cluster at one moment, without the pods of KAI and of DaemonSets."""

    kai: str
    """Version of KAI's Helm release, without the leading v; empty: none."""
    pods: tuple[RunningPod, ...]
    succeeded: frozenset[str]
    """UIDs of pods that have succeeded."""
    reservations: tuple[PodView, ...]
    pod_groups: frozenset[str]
    queues: Mapping[str, Mapping[str, Any]]
    """Queue → its settings, including KAI's defaults; without temporary queues."""


@dataclass(frozen=True)
class SnapshotDiff:
    """Changes between two snapshots; each line names the object. ``notes`` are harmless changes."""

    kept: int
    """Pods with the same UID, node, GPUs and number of restarts."""
    lost: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    regrouped: tuple[str, ...] = ()
    reservations: tuple[str, ...] = ()
    pod_groups: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def harm(self) -> tuple[str, ...]:
        """All changes that an upgrade must not cause."""
        pods = (*self.lost, *self.restarted, *self.moved, *self.regrouped)
        return (*pods, *self.reservations, *self.pod_groups, *self.queues)

    @property
    def ok(self) -> bool:
        return not self.harm

    JSON = "ok *"


def take_snapshot(cluster: Cluster) -> WorkloadSnapshot:
    """The workloads in a cluster now. Raises ApiFailed."""
    release = helm_release.installed(cluster, RELEASE, NAMESPACE)
    return snapshot_of(
        release.chart_version.removeprefix("v") if release else "",
        cluster.list("Pod"),
        cluster.list("PodGroup"),
        cluster.list("Queue.scheduling.run.ai"),
    )


def snapshot_of(kai: str, pods: Iterable[Json], groups: Iterable[Json], queues: Iterable[Json]) -> WorkloadSnapshot:
    """The snapshot from API objects."""
    lasting = [queue for queue in queues if TEST_LABEL not in labels_of(queue["metadata"])]
    objects = [pod for pod in pods if _is_workload(pod["metadata"])]
    reservations = [pod for pod in map(PodView.of, filter(is_reservation, objects)) if not pod.deleting]
    uuids = {group: pod.reserved_gpu for pod in reservations for group in pod.gpu_groups}
    views = [PodView.of(obj) for obj in objects if not is_reservation(obj)]
    running = [_running(pod, uuids) for pod in views if pod.node and not pod.ended and not pod.deleting]
    return WorkloadSnapshot(
        kai,
        tuple(sorted(running, key=lambda pod: pod.title)),
        frozenset(pod.uid for pod in views if pod.phase == "Succeeded"),
        tuple(sorted(reservations, key=lambda pod: pod.gpu_groups)),
        frozenset(f"{group.namespace}/{group.name}" for group in map(PodGroupView.of, groups)),
        {queue.name: {key: asdict(queue)[key] for key in _SETTINGS} for queue in map(QueueView.of, lasting)},
    )


def _is_workload(meta: Json) -> bool:
    """Whether KAI's versions matter to a pod.

    Not to KAI's own, not to those of DaemonSets, which suites restart (device plugins), and not to those of an upgrade
    itself: a killed upgrade leaves its pods, and the next deletes them.
    """
    namespace = str(meta.get("namespace", ""))
    own = namespace == NAMESPACE or namespace.startswith(smoke_test.PREFIX)
    return not own and not owner_of(meta).startswith("DaemonSet/")


def _running(pod: PodView, uuids: Mapping[str, str]) -> RunningPod:
    return RunningPod(
        f"{pod.namespace}/{pod.name}",
        pod.uid,
        pod.node,
        pod.restarts,
        pod.gpu_groups,
        tuple(uuids.get(group, "") for group in pod.gpu_groups),
        f"{pod.namespace}/{pod.pod_group}" if pod.pod_group else "",
    )


def compare(before: WorkloadSnapshot, after: WorkloadSnapshot) -> SnapshotDiff:
    """Changes of the workloads in ``before``; pods that have succeeded since are not lost."""
    current = {pod.title: pod for pod in after.pods}
    lost: list[str] = []
    moved: list[str] = []
    stayed: list[tuple[RunningPod, RunningPod]] = []
    for old in before.pods:
        new = current.get(old.title)
        if old.uid in after.succeeded:
            continue
        if new is None:
            lost.append(f"pod {old.title}: gone (UID {old.uid})")
        elif new.uid != old.uid:
            lost.append(f"pod {old.title}: recreated (UID {old.uid} → {new.uid})")
            moved += [f"pod {old.title}: node {old.node} → {new.node}"] if new.node != old.node else []
        else:
            stayed.append((old, new))
    groups, group_notes = _pod_groups(before, after, stayed)
    return SnapshotDiff(
        kept=sum(
            (old.node, old.gpu_groups, old.restarts) == (new.node, new.gpu_groups, new.restarts) for old, new in stayed
        ),
        lost=tuple(lost),
        restarted=tuple(
            f"pod {old.title}: {new.restarts - old.restarts} restarts"
            for old, new in stayed
            if new.restarts > old.restarts
        ),
        moved=tuple(moved),
        regrouped=tuple(line for old, new in stayed for line in _regrouped(old, new)),
        reservations=tuple(_reservations(before, after, stayed)),
        pod_groups=tuple(groups),
        queues=tuple(_queues(before, after)),
        notes=(*group_notes, *(f"queue {name}: new" for name in after.queues if name not in before.queues)),
    )


def _regrouped(old: RunningPod, new: RunningPod) -> Iterator[str]:
    if old.gpu_groups != new.gpu_groups:
        yield f"pod {old.title}: GPU group {_joined(old.gpu_groups)} → {_joined(new.gpu_groups)}"
    elif old.gpu_uuids != new.gpu_uuids and all(old.gpu_uuids):
        yield f"pod {old.title}: GPU {_joined(old.gpu_uuids)} → {_joined(new.gpu_uuids)}"


def _reservations(
    before: WorkloadSnapshot, after: WorkloadSnapshot, stayed: Iterable[tuple[RunningPod, RunningPod]]
) -> Iterator[str]:
    """Changes of the reservation pods of GPUs that are still shared."""
    used = {group for old, _ in stayed for group in old.gpu_groups}
    uids = {group: pod.uid for pod in after.reservations for group in pod.gpu_groups}
    for group, old in [(group, pod) for pod in before.reservations for group in pod.gpu_groups if group in used]:
        if group not in uids:
            yield f"reservation pod {old.name} of GPU group {group}: gone while the group has pods"
        elif uids[group] != old.uid:
            yield f"reservation pod {old.name} of GPU group {group}: recreated (UID {old.uid} → {uids[group]})"


def _pod_groups(
    before: WorkloadSnapshot, after: WorkloadSnapshot, stayed: Iterable[tuple[RunningPod, RunningPod]]
) -> tuple[list[str], list[str]]:
    """PodGroups that pods lost, and those that were replaced by others."""
    lost, replaced = [], []
    for old, new in stayed:
        if old.pod_group not in before.pod_groups:
            continue
        if new.pod_group not in after.pod_groups:
            lost.append(f"PodGroup {old.pod_group}: gone, and pod {old.title} has no other")
        elif new.pod_group != old.pod_group:
            replaced.append(f"pod {old.title}: PodGroup {old.pod_group} → {new.pod_group}")
    return lost, replaced


def _queues(before: WorkloadSnapshot, after: WorkloadSnapshot) -> Iterator[str]:
    """Queues that are gone or have other settings."""
    for name, old in before.queues.items():
        new = after.queues.get(name)
        if new is None:
            yield f"queue {name}: gone"
        elif new != old:
            yield f"queue {name}: {', '.join(f'{key} {old[key]} → {new[key]}' for key in old if old[key] != new[key])}"


def _joined(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
