"""What runs inside a tenant, and what became of it between two looks: lost, restarted, moved, put on another GPU. Pure,
except for ``look``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lab.kai import lines
from lab.kube import Cluster
from lab.objects.kai import PodGroupView, QueueShare, QueueView, is_reservation
from lab.objects.views import PodView
from lab.steps import helm_release

Json = Mapping[str, Any]

_ANY = next(iter(lines().values()))


@dataclass(frozen=True)
class RunningPod:
    """A pod that has a node and has not ended."""

    title: str
    """``namespace/name``."""
    uid: str
    node: str
    restarts: int
    """Of all its containers."""
    gpu_groups: tuple[str, ...]
    """The shared GPUs it is on; none for whole GPUs."""
    gpu_uuids: tuple[str, ...]
    """UUIDs of those GPUs, by their reservation pods."""
    pod_group: str
    """``namespace/name`` of its PodGroup, empty without one."""


@dataclass(frozen=True)
class Reserved:
    """The reservation pod of a GPU group."""

    group: str
    name: str
    uid: str
    node: str
    gpu_uuid: str


@dataclass(frozen=True)
class QueueSeen:
    """What somebody wrote into a queue, with KAI's defaults for the rest."""

    parent: str
    priority: int
    gpu: QueueShare
    cpu: QueueShare
    memory: QueueShare


@dataclass(frozen=True)
class WorkloadSnapshot:
    """A look into a tenant. KAI's own pods are not among ``pods``."""

    kai: str
    """Version of KAI's Helm release, without the leading v; empty: none."""
    pods: tuple[RunningPod, ...]
    succeeded: frozenset[str]
    """UIDs of pods that have ended well."""
    reservations: tuple[Reserved, ...]
    pod_groups: frozenset[str]
    queues: Mapping[str, QueueSeen]


@dataclass(frozen=True)
class SnapshotDiff:
    """What became of what ran before; each line names the object. ``notes`` are changes that hurt nobody."""

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
        """Everything that must not have happened."""
        pods = (*self.lost, *self.restarted, *self.moved, *self.regrouped)
        return (*pods, *self.reservations, *self.pod_groups, *self.queues)

    @property
    def ok(self) -> bool:
        return not self.harm

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.ok, **vars(self)}


def look(cluster: Cluster) -> WorkloadSnapshot:
    """What runs in a tenant's cluster now. Raises ApiFailed."""
    release = helm_release.installed(cluster, _ANY.release, _ANY.namespace)
    return snapshot_of(
        release.chart_version.removeprefix("v") if release else "",
        cluster.list("Pod"),
        cluster.list("PodGroup"),
        cluster.list("Queue.scheduling.run.ai"),
    )


def snapshot_of(kai: str, pods: Iterable[Json], groups: Iterable[Json], queues: Iterable[Json]) -> WorkloadSnapshot:
    """The snapshot from API objects."""
    objects = [pod for pod in pods if pod["metadata"].get("namespace") != _ANY.namespace]
    held = [view for view in map(PodView.of, filter(is_reservation, objects)) if not view.deleting]
    reservations = tuple(_reserved(view) for view in held)
    uuids = {one.group: one.gpu_uuid for one in reservations}
    views = [PodView.of(obj) for obj in objects if not is_reservation(obj)]
    running = [view for view in views if view.node and not view.ended and not view.deleting]
    return WorkloadSnapshot(
        kai,
        tuple(sorted((_running(view, uuids) for view in running), key=lambda pod: pod.title)),
        frozenset(view.uid for view in views if view.phase == "Succeeded"),
        tuple(sorted(reservations, key=lambda one: one.group)),
        frozenset(f"{view.namespace}/{view.name}" for view in map(PodGroupView.of, groups)),
        {view.name: _queue(view) for view in map(QueueView.of, queues)},
    )


def compare(before: WorkloadSnapshot, after: WorkloadSnapshot) -> SnapshotDiff:
    """What became of what ran before. Pods that have ended well meanwhile are no loss."""
    there = {pod.title: pod for pod in after.pods}
    lost: list[str] = []
    moved: list[str] = []
    stayed: list[tuple[RunningPod, RunningPod]] = []
    for pod in before.pods:
        now = there.get(pod.title)
        if pod.uid in after.succeeded:
            continue
        if now is None:
            lost.append(f"pod {pod.title}: gone (UID {pod.uid})")
        elif now.uid != pod.uid:
            lost.append(f"pod {pod.title}: another one of that name (UID {pod.uid} → {now.uid})")
            moved += [f"pod {pod.title}: node {pod.node} → {now.node}"] if now.node != pod.node else []
        else:
            stayed.append((pod, now))
    groups, group_notes = _pod_groups(before, after, stayed)
    queues, queue_notes = _queues(before, after)
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
        pod_groups=groups,
        queues=queues,
        notes=(*group_notes, *queue_notes),
    )


def _regrouped(old: RunningPod, new: RunningPod) -> Iterator[str]:
    if old.gpu_groups != new.gpu_groups:
        yield f"pod {old.title}: GPU group {_words(old.gpu_groups)} → {_words(new.gpu_groups)}"
    elif old.gpu_uuids != new.gpu_uuids and all(old.gpu_uuids):
        yield f"pod {old.title}: GPU {_words(old.gpu_uuids)} → {_words(new.gpu_uuids)}"


def _reservations(
    before: WorkloadSnapshot, after: WorkloadSnapshot, stayed: Iterable[tuple[RunningPod, RunningPod]]
) -> Iterator[str]:
    """What became of the reservation pods of GPUs that are still shared."""
    used = {group for old, _ in stayed for group in old.gpu_groups}
    there = {one.group: one for one in after.reservations}
    for one in before.reservations:
        now = there.get(one.group)
        if one.group not in used or now == one:
            continue
        if now is None:
            yield f"reservation pod {one.name} of GPU group {one.group}: gone while the group has pods"
        elif now.uid != one.uid:
            yield f"reservation pod {one.name} of GPU group {one.group}: another one (UID {one.uid} → {now.uid})"


def _pod_groups(
    before: WorkloadSnapshot, after: WorkloadSnapshot, stayed: Iterable[tuple[RunningPod, RunningPod]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """PodGroups that pods lost, and those that were exchanged for others."""
    lost, notes = [], []
    for old, new in stayed:
        if old.pod_group not in before.pod_groups:
            continue
        if new.pod_group not in after.pod_groups:
            lost.append(f"PodGroup {old.pod_group}: gone, and pod {old.title} has no other")
        elif new.pod_group != old.pod_group:
            notes.append(f"pod {old.title}: PodGroup {old.pod_group} → {new.pod_group}")
    return tuple(lost), tuple(notes)


def _queues(before: WorkloadSnapshot, after: WorkloadSnapshot) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Queues that are gone or say something else, and those that came."""
    lines = []
    for name, queue in before.queues.items():
        now = after.queues.get(name)
        if now is None:
            lines.append(f"queue {name}: gone")
            continue
        new = asdict(now)
        changed = [f"{key} {was} → {new[key]}" for key, was in asdict(queue).items() if new[key] != was]
        lines += [f"queue {name}: {', '.join(changed)}"] if changed else []
    return tuple(lines), tuple(f"queue {name}: new" for name in after.queues if name not in before.queues)


def _running(view: PodView, uuids: Mapping[str, str]) -> RunningPod:
    return RunningPod(
        f"{view.namespace}/{view.name}",
        view.uid,
        view.node,
        view.restarts,
        view.gpu_groups,
        tuple(uuids.get(group, "") for group in view.gpu_groups),
        f"{view.namespace}/{view.pod_group}" if view.pod_group else "",
    )


def _reserved(view: PodView) -> Reserved:
    return Reserved(next(iter(view.gpu_groups), ""), view.name, view.uid, view.node, view.reserved_gpu)


def _queue(view: QueueView) -> QueueSeen:
    return QueueSeen(view.parent, view.priority, view.gpu, view.cpu, view.memory)


def _words(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
