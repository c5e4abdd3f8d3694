"""Whether KAI's own rules required an eviction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from lab.explain.owners import Ref
from lab.findings import Certainty
from lab.objects.fields import number, parts
from lab.objects.kai import PodGroupView
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.text import count

_QUEUE = re.compile(
    r"(?P<queue>\S+) uses <(?P<uses>[^>]*)> with a quota of <(?P<quota>[^>]*)>, fair-share of <(?P<fair>[^>]*)>"
    r" and queue priority of <(?P<priority>-?\d+)>"
)
_UNLIMITED = float("inf")

ACTIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "reclaim": (
            "Another queue reclaimed its share",
            "reclaim gives a queue its fair share back from queues above theirs, or above their quota",
        ),
        "preempt": (
            "A workload of higher priority in the same queue",
            "preempt serves a higher priority in the same queue; only preemptible workloads are evicted for it",
        ),
        "consolidation": (
            "Moved to make room",
            "consolidation moves pods together when enough GPUs are free but scattered over nodes; a bare pod is lost",
        ),
        "stalegangeviction": (
            "A gang fell below its minimum",
            "a gang had fewer pods than its minimum for longer than the grace period, and KAI evicts the rest",
        ),
    }
)
"""Actions of the scheduler that evict: title, and the rule by which they do."""


Required = Literal["yes", "no", "unknown"]
"""Whether KAI's rules required an eviction."""


@dataclass(frozen=True)
class QueueThen:
    """A queue when KAI evicted, in GPUs, as KAI's event has it; it may be a parent of the workload's queue."""

    name: str
    uses: float
    quota: float
    fair: float
    priority: int

    @property
    def used(self) -> str:
        return f"queue {self.name} used {count(self.uses, 'GPU')}"

    @property
    def line(self) -> str:
        quota = "unlimited" if self.quota == _UNLIMITED else f"{self.quota:g}"
        fair = "unlimited" if self.fair == _UNLIMITED else f"{self.fair:g}"
        return f"{self.used}; quota {quota}, fair share {fair}, priority {self.priority}"


@dataclass(frozen=True)
class EvictorQueues:
    """The queues of a victim and of the workload that took its place."""

    victim: QueueThen | None
    evictor: QueueThen | None
    victim_class: str
    evictor_class: str

    @classmethod
    def of(cls, snapshot: ClusterSnapshot, victim: Ref, evictor: Ref | None, messages: Iterable[str]) -> EvictorQueues:
        """Read the queues from the newest event, the victim's first, and the priority classes from the PodGroups."""
        rows = [_then(match) for message in messages for match in _QUEUE.finditer(message)]
        classes = [_class(snapshot, one) for one in (victim, evictor)]
        pair = rows[-2:] if len(rows) > 1 else [None, None]
        return cls(pair[0], pair[1], classes[0], classes[1])


@dataclass(frozen=True)
class Verdict:
    """Whether KAI's rules required an eviction, and why."""

    required: Required
    verb: str
    title: str
    why: str
    next: str
    evidence: tuple[str, ...]
    certainty: Certainty


def verdict(snapshot: ClusterSnapshot, action: str, victim: Ref, queues: EvictorQueues) -> Verdict:
    """Judge an eviction by the rules of its action."""
    match action:
        case "reclaim":
            return _reclaim(queues)
        case "preempt":
            return _preempt(snapshot, queues)
        case "consolidation":
            return _consolidation(snapshot, victim)
        case "stalegangeviction":
            return Verdict(
                "yes",
                "stale gang eviction",
                ACTIONS[action][0],
                "the gang had fewer pods than its minimum for longer than the grace period",
                "find out why pods of the gang ended; kai.scheduler/staleness-grace-period sets the wait",
                (),
                Certainty.CERTAIN,
            )
    return Verdict("unknown", action, action, "an action that this release of kailab does not know", "", (), _POSSIBLE)


_POSSIBLE = Certainty.POSSIBLE


def _reclaim(queues: EvictorQueues) -> Verdict:
    """Reclaim gives a queue its fair share back from queues above theirs, or above quota (plugins/proportion)."""
    title, victim, evictor = ACTIONS["reclaim"][0], queues.victim, queues.evictor
    if victim is None or evictor is None:
        why = "another queue was entitled to the GPUs; its event has no figures"
        return Verdict("unknown", "reclaim", title, why, "kailab explain queue", (), Certainty.LIKELY)
    lines = (victim.line, evictor.line)
    raise_quota = f"give queue {victim.name} quota for work that must stay; what it borrows, others can reclaim"
    over = max(0.0, victim.uses - victim.fair)
    if over or victim.uses > victim.quota:
        borrowed = f"{over:g} above its fair share" if over else "above its quota"
        why = f"{victim.used}, {borrowed}, and {evictor.name} used less than its share"
        if evictor.uses < max(evictor.fair, evictor.quota):
            return Verdict("yes", "reclaim", title, why, raise_quota, lines, Certainty.CERTAIN)
        why = f"queue {evictor.name} used its whole fair share of {count(evictor.fair, 'GPU')} already"
        return Verdict("no", "reclaim", title, why, "report it to KAI with this evidence", lines, Certainty.LIKELY)
    why = f"{victim.used}, no more than its share; another resource may have decided"
    return Verdict("unknown", "reclaim", title, why, raise_quota, lines, Certainty.LIKELY)


def _preempt(snapshot: ClusterSnapshot, queues: EvictorQueues) -> Verdict:
    """Preempt serves a higher priority in the same queue (actions/preempt)."""
    title = ACTIONS["preempt"][0]
    values = {parts(obj)[0].get("name", ""): number(obj.get("value")) for obj in snapshot.of("PriorityClass")}
    low, high = values.get(queues.victim_class), values.get(queues.evictor_class)
    rows = (("victim", queues.victim_class, low), ("other", queues.evictor_class, high))
    lines = tuple(
        f"priority class of the {who}: {name or 'unknown'} ({'no value' if value is None else f'{value:g}'})"
        for who, name, value in rows
    )
    fix = "label the workload priorityClassName=build or inference: not preemptible, and needs quota in its queue"
    if low is None or high is None:
        why = "a workload of higher priority in the same queue needed the GPUs"
        return Verdict("unknown", "preempt", title, why, fix, lines, Certainty.LIKELY)
    if high > low:
        why = f"priority {high:g} needed the GPUs of priority {low:g} in the same queue"
        return Verdict("yes", "preempt", title, why, fix, lines, Certainty.CERTAIN)
    why = f"the other workload's priority {high:g} is not above {low:g}"
    return Verdict("no", "preempt", title, why, "report it to KAI with this evidence", lines, Certainty.LIKELY)


def _consolidation(snapshot: ClusterSnapshot, victim: Ref) -> Verdict:
    """Consolidation moves pods together when enough GPUs are free but scattered (actions/consolidation).

    The scheduler only deletes the pod. Its controller recreates it; nothing recreates a bare pod (seen with 0.16.8).
    """
    made = snapshot.get("PodGroup", victim.name, victim.namespace)
    kinds = {row.get("kind") for row in parts(made or {})[0].get("ownerReferences") or []}
    bare = kinds == {"Pod"} or (made is None and not snapshot.group_pods(victim.name, victim.namespace))
    why = "the free GPUs were scattered over nodes, and moving this pod made room"
    if bare:
        why += "; nothing recreates a bare pod, so it was lost instead of moved"
    fix = "create it again as a Job, whose controller recreates it" if bare else "label it priorityClassName=build"
    lines = (f"PodGroup {victim.name}: {'no controller' if bare else 'a controller recreates its pods'}",)
    return Verdict(
        "no" if bare else "yes", "consolidation", ACTIONS["consolidation"][0], why, fix, lines, Certainty.LIKELY
    )


def _then(match: re.Match[str]) -> QueueThen:
    uses, quota, fair = (_gpus(match[key]) for key in ("uses", "quota", "fair"))
    return QueueThen(match["queue"], uses, quota, fair, int(match["priority"]))


def _gpus(text: str) -> float:
    """Return the GPUs of ``GPU: 2, CPU: 0.1 (cores), memory: 0.2 (GB)``."""
    found = re.search(r"GPUs?: ([^,>\s]+)", text)
    return _UNLIMITED if found and found[1] == "Unlimited" else number(found[1] if found else 0) or 0.0


def _class(snapshot: ClusterSnapshot, group: Ref | None) -> str:
    made = snapshot.get("PodGroup", group.name, group.namespace) if group is not None else None
    return "" if made is None else PodGroupView.of(made).priority_class
