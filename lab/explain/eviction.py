"""Evictions by KAI's scheduler: which pods, by which action, for which workload, and whether KAI's rules required it.

Sources, KAI 0.9.8 to 0.17.0: pkg/scheduler/cache/status_updater/default_status_updater.go (event Evict on the
PodGroup with annotations), pkg/scheduler/api/unschedule_info.go (its message), pkg/scheduler/metrics/metrics.go
(``kai_pod_group_evicted_pods_total``, from 0.14 on).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from lab.explain.eviction_verdict import EvictorQueues, Required, verdict
from lab.explain.lookup import no_such
from lab.explain.owners import Ref, owners
from lab.findings import Finding
from lab.objects.fields import annotations_of, parts
from lab.objects.synced import SyncedObject
from lab.objects.views import EventView
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.scheduler_metrics import samples
from lab.text import count, one_line

EVICTED = "kai_pod_group_evicted_pods_total"
_POD = re.compile(r"(?:Pod |evicting remaining pod: )(?P<namespace>[^/\s]+)/(?P<name>[^\s]+)")
_RECENT = 20
_LOG_LINES = 6


@dataclass(frozen=True)
class Eviction:
    """Pods of one PodGroup that one action evicted for one workload."""

    action: str
    """reclaim, preempt, consolidation or stalegangeviction."""
    group: Ref
    """Their PodGroup."""
    workload: str
    """Their workload; the PodGroup once its objects are deleted."""
    evictor: Ref | None
    """The PodGroup that got their place; None for a gang that is below its minimum."""
    evictor_workload: str
    pods: tuple[str, ...]
    """Names; fewer than ``times`` if Kubernetes combined the events."""
    times: int
    last: datetime | None
    messages: tuple[str, ...]
    """Different messages of the events, oldest first."""

    @property
    def pods_title(self) -> str:
        return f"{self.group.namespace}/{', '.join(self.pods[:4])}{', …' if len(self.pods) > 4 else ''}"


@dataclass(frozen=True)
class EvictionExplanation:
    """Evictions of a pod or a workload, or the recent ones of a cluster."""

    subject: str
    """Empty: the whole cluster."""
    evictions: tuple[Eviction, ...]
    """The newest first."""
    findings: tuple[Finding, ...]
    """One for each eviction, then those about lost events."""
    required: tuple[Required, ...]
    """For each eviction: whether KAI's rules required it."""
    counted: Mapping[str, int]
    """``namespace/PodGroup action`` → evicted pods by the scheduler's counter, since the scheduler started."""
    metrics: bool
    """Whether the scheduler's metrics could be read."""

    @property
    def settled(self) -> bool:
        """Whether an eviction was found, or the metrics prove that there was none."""
        return bool(self.findings) or self.metrics

    JSON = "subject evictions findings required counted metrics"


def explain_evictions(
    snapshot: ClusterSnapshot, subject: Ref | None = None, *, tenant: str = ""
) -> EvictionExplanation:
    """Explain the evictions of a pod or workload, or the recent ones of the cluster.

    Args:
        snapshot: the cluster whose KAI evicts.
        subject: may be deleted: events of its PodGroup outlive it by an hour.
        tenant: only evictions of pods that are synced from this tenant; ``subject`` is then named as inside it.

    Raises NoSuchPod if the subject is unknown.
    """
    inside = SyncedPods(snapshot, tenant) if tenant else None
    if subject is None:
        groups: frozenset[Ref] = frozenset()
    else:
        groups = inside.groups(subject) if inside else _groups(snapshot, subject)
    found = [
        one
        for one in _evictions(snapshot)
        if (inside.has(one, subject) if inside else subject is None or _concerns(one, subject, groups))
    ]
    if subject is not None and not found and not groups:
        what = f"eviction, pod or workload {subject.namespace}/{subject.name}"
        there = inside.names if inside else snapshot.pod_names
        raise no_such(there, what, subject.name, subject.namespace)
    groups |= {one.group for one in found}
    counted = {
        (row["namespace"], row["podgroup"], row["action"]): int(value)
        for row, value in samples(snapshot.metrics, EVICTED)
        if (subject is None and not tenant) or Ref("PodGroup", row["namespace"], row["podgroup"]) in groups
    }
    shown = found[:_RECENT] if subject is None else found
    judged = [_judged(snapshot, one) for one in shown]
    lost = _lost(found, counted)
    return EvictionExplanation(
        subject="" if subject is None else _title(subject, tenant),
        evictions=tuple(shown),
        findings=(*(finding for finding, _ in judged), *lost),
        required=tuple(answer for _, answer in judged),
        counted={f"{space}/{name} {action}": number for (space, name, action), number in counted.items() if number},
        metrics=bool(snapshot.metrics),
    )


@dataclass(frozen=True)
class SyncedPods:
    """A tenant's pods on the host, those of deleted pods by the names that vCluster gives them."""

    snapshot: ClusterSnapshot
    tenant: str

    @property
    def names(self) -> Iterator[tuple[str, str]]:
        """Namespace and name, inside the tenant, of its pods."""
        synced = map(SyncedObject.of, self.snapshot.of("Pod"))
        return ((of.namespace, of.name) for of in synced if of.tenant == self.tenant)

    def groups(self, subject: Ref) -> frozenset[Ref]:
        """Return the host's PodGroups of a pod or workload of the tenant."""
        return frozenset(
            Ref("PodGroup", view.namespace, view.pod_group)
            for raw, view in zip(self.snapshot.of("Pod"), self.snapshot.pods, strict=True)
            if view.pod_group and (of := SyncedObject.of(raw)).tenant == self.tenant
            if _is_of(subject, of.namespace, of.name)
        )

    def has(self, one: Eviction, subject: Ref | None) -> bool:
        """Return whether one of the evicted pods is of the subject, or of the tenant."""
        names = (self._inside(one.group.namespace, name) for name in one.pods)
        return any(of is not None and (subject is None or _is_of(subject, *of)) for of in names)

    def _inside(self, namespace: str, name: str) -> tuple[str, str] | None:
        """Return namespace and name inside the tenant: by the pod's keys, or by ``NAME-x-NAMESPACE-x-TENANT``."""
        raw = self.snapshot.get("Pod", name, namespace)
        if raw is not None:
            of = SyncedObject.of(raw)
            return (of.namespace, of.name) if of.tenant == self.tenant else None
        match = re.fullmatch(rf"(.+)-x-(.+)-x-{re.escape(self.tenant)}", name)
        return (match[2], match[1]) if match else None


def _is_of(subject: Ref, namespace: str, name: str) -> bool:
    """Return whether a pod is the subject, or has the name that a workload's pods have."""
    named = name == subject.name if subject.kind in ("", "Pod") else name.startswith(f"{subject.name}-")
    return namespace == subject.namespace and named


def _title(subject: Ref, tenant: str) -> str:
    of = f" of tenant {tenant}" if tenant else ""
    return f"{subject.kind or 'Pod'} {subject.namespace}/{subject.name}{of}"


def _evictions(snapshot: ClusterSnapshot) -> list[Eviction]:
    """Return all evictions by event, those of one PodGroup, action and evictor together, the newest first."""
    known = owners(snapshot)
    rows: dict[tuple[Ref, str, Ref | None], list[EventView]] = {}
    for raw in snapshot.of("Event"):
        event = EventView.of(raw)
        if event.reason != "Evict" or event.kind != "PodGroup":
            continue
        notes = annotations_of(parts(raw)[0])
        evictor = notes.get("evictor-pod-group-name")
        by = Ref("PodGroup", notes.get("evictor-pod-group-namespace", ""), evictor) if evictor else None
        group = Ref("PodGroup", event.namespace, event.name)
        rows.setdefault((group, notes.get("evictor-action-type") or _action(event.message), by), []).append(event)

    def workload(group: Ref) -> str:
        pods = known.pods.get(group, ())
        if pods:
            return known.workload(pods[0]).title
        made = snapshot.get("PodGroup", group.name, group.namespace)
        owner = next(iter(parts(made or {})[0].get("ownerReferences") or []), None)
        return f"{owner['kind']} {group.namespace}/{owner['name']}" if owner else group.title

    found = [
        Eviction(
            action=action,
            group=group,
            workload=workload(group),
            evictor=by,
            evictor_workload=workload(by) if by is not None else "",
            pods=tuple(dict.fromkeys(match["name"].rstrip(".") for e in events if (match := _POD.search(e.message)))),
            times=sum(event.count for event in events),
            last=max((event.last for event in events if event.last), default=None),
            messages=tuple(dict.fromkeys(one_line(event.message, 700) for event in events)),
        )
        for (group, action, by), events in rows.items()
    ]
    return sorted(found, key=lambda one: one.last.timestamp() if one.last else 0.0, reverse=True)


def _action(message: str) -> str:
    """Return the action by its message, for an event without annotations."""
    patterns = {
        "consolidation": "resource consolidation",
        "stalegangeviction": "minimum required number of pods",
        "preempt": "higher priority workload",
    }
    return next((action for action, words in patterns.items() if words in message), "reclaim")


def _groups(snapshot: ClusterSnapshot, subject: Ref) -> frozenset[Ref]:
    """Return the PodGroups of a pod or workload."""
    if subject.kind == "PodGroup":
        exists = snapshot.get("PodGroup", subject.name, subject.namespace) is not None
        return frozenset({subject} if exists else ())
    itself = [Ref("Pod", subject.namespace, subject.name)] if subject.kind in ("", "Pod") else []
    pods = [*itself, *owners(snapshot).pods.get(subject, ())]
    views = (snapshot.pod(pod.name, pod.namespace) for pod in pods)
    found = {Ref("PodGroup", view.namespace, view.pod_group) for view in views if view is not None and view.pod_group}
    for raw in snapshot.of("PodGroup"):
        meta = parts(raw)[0]
        for row in meta.get("ownerReferences") or []:
            if Ref(row.get("kind", ""), meta.get("namespace", ""), row.get("name", "")) == subject:
                found.add(Ref("PodGroup", subject.namespace, meta["name"]))
    return frozenset(found)


def _concerns(one: Eviction, subject: Ref, groups: Iterable[Ref]) -> bool:
    if subject.kind in ("", "Pod"):
        return one.group.namespace == subject.namespace and subject.name in one.pods
    return one.group in groups or one.group == subject or one.workload == subject.title


def _judged(snapshot: ClusterSnapshot, one: Eviction) -> tuple[Finding, Required]:
    """Return what happened, with the evidence and whether KAI's rules required it."""
    queues = EvictorQueues.of(snapshot, one.group, one.evictor, one.messages)
    judgement = verdict(snapshot, one.action, one.group, queues)
    pods = f"{count(one.times, 'pod')} of {one.workload}" if one.times > 1 else f"Pod {one.pods_title}"
    whom = f" for {one.evictor_workload}" if one.evictor is not None else ""
    at = f" at {one.last:%H:%M:%S}" if one.last else ""
    names = (*one.pods, one.group.name, *((one.evictor.name,) if one.evictor is not None else ()))
    lines = [line for line in snapshot.logs.get("evictions", ()) if any(name in line for name in names)]
    evidence = (
        *(f"event Evict{at}: {message}" for message in one.messages[-2:]),
        *judgement.evidence,
        *(_state(snapshot, Ref("Pod", one.group.namespace, name)) for name in one.pods[:4]),
        *((_group_state(snapshot, one.evictor),) if one.evictor is not None else ()),
        *(f"log: {one_line(line)}" for line in lines[-_LOG_LINES:]),
    )
    return (
        Finding(
            f"{judgement.verb} evicted {pods}{whom}{at}: {judgement.why}",
            judgement.next,
            evidence,
            judgement.certainty,
            severity="note" if judgement.required == "yes" else "warning",
            subject=one.workload,
            rule=f"eviction.{one.action}",
            title=judgement.title,
            source="pkg/scheduler/actions, KAI 0.16.8",
        ),
        judgement.required,
    )


def _state(snapshot: ClusterSnapshot, pod: Ref) -> str:
    view = snapshot.pod(pod.name, pod.namespace)
    if view is None:
        return f"pod {pod.namespace}/{pod.name} no longer exists"
    where = f" on {view.node}" if view.node else ", no node"
    return f"pod {pod.namespace}/{pod.name} now: {view.phase}{where}{', being deleted' if view.deleting else ''}"


def _group_state(snapshot: ClusterSnapshot, group: Ref) -> str:
    pods = snapshot.group_pods(group.name, group.namespace)
    bound = sum(1 for pod in pods if pod.node and not pod.ended)
    return f"{group.title}, for which it was evicted, now has {count(len(pods), 'pod')}, {bound} of them on a node"


def _lost(found: Iterable[Eviction], counted: Mapping[tuple[str, str, str], int]) -> list[Finding]:
    """Return PodGroups with more evictions than events."""
    seen: dict[tuple[str, str, str], int] = {}
    for one in found:
        key = (one.group.namespace, one.group.name, one.action)
        seen[key] = seen.get(key, 0) + one.times
    lost = [(*key, number, seen.get(key, 0)) for key, number in counted.items() if number > seen.get(key, 0)]
    return [
        Finding(
            f"{action} evicted {count(number, 'pod')} of PodGroup {space}/{name}; events of {events} exist",
            "trust the counter: the scheduler sends 25 events about a PodGroup, those about its wait included, then one"
            " in 5 minutes, and Kubernetes keeps them for an hour",
            (f'{EVICTED}{{podgroup="{name}",namespace="{space}",action="{action}"}} {number}',),
            severity="note",
            subject=f"PodGroup {space}/{name}",
            rule="eviction.events-lost",
            title="The counter has more evictions than there are events",
            source="client-go, tools/record/events_cache.go: burst 25, 1 per 300 s; seen with KAI 0.16.8",
        )
        for space, name, action, number, events in lost
    ]
