"""What components said about a pod, sorted by who speaks: admission, scheduler, binder, kubelet.

Events stay for an hour after what they tell of is over. So of each reporter only the newest word on a subject
counts, and a condition, which is kept up to date, comes before any event.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab.objects.views import EventView, PodView

REFUSALS = ("FailedCreate", "SyncError", "SyncWarning")
"""Controllers that may not make a pod; vCluster's syncer (pkg/patcher/apply.go, pods/syncer.go, v0.36.1)."""
VERDICTS = ("Unschedulable", "FailedScheduling", "NotReady", "StaleJob", "Pipelined", "Evict", "Preempted")
"""KAI's scheduler (status_updater/default_status_updater.go, 0.7.11 to 0.17.0) and kube-scheduler."""
BIND_ERRORS = ("BindingError", "FailedBinding")
PLACED = ("Scheduled", "Bound")
_LONG = 400


@dataclass(frozen=True)
class ComponentMessage:
    """One thing that a component said."""

    who: str
    """``event FailedScheduling (default-scheduler)``, ``condition PodScheduled``, …"""
    text: str

    @property
    def line(self) -> str:
        words = " ".join(self.text.split())
        return f"{self.who}: {words if len(words) <= _LONG else words[:_LONG] + '…'}"


def of_event(event: EventView) -> ComponentMessage:
    """An event as a saying."""
    when = f" at {event.last:%H:%M:%S}" if event.last else ""
    often = f" ×{event.count}" if event.count > 1 else ""
    by = f" ({event.reporter})" if event.reporter else ""
    return ComponentMessage(f"event {event.reason}{by}{when}{often}", event.message)


def of_conditions(pod: PodView, *types: str) -> tuple[ComponentMessage, ...]:
    """The pod's conditions of these types that are not True."""
    return tuple(
        ComponentMessage(f"condition {c.type}={c.status} ({c.reason})", c.message)
        for c in pod.conditions
        if c.type in types and c.status != "True" and (c.message or c.reason)
    )


def newest(events: Iterable[EventView], reasons: Iterable[str]) -> tuple[EventView, ...]:
    """The newest event of each reason and reporter; ``events`` are oldest first."""
    wanted, last = frozenset(reasons), {}
    for event in events:
        if event.reason in wanted:
            last[event.reason, event.reporter, event.uid] = event
    return tuple(reversed(last.values()))


def unique(sayings: Iterable[ComponentMessage]) -> tuple[ComponentMessage, ...]:
    """Each text once, the first who said it."""
    kept: dict[str, ComponentMessage] = {}
    for saying in sayings:
        kept.setdefault(" ".join(saying.text.split()), saying)
    return tuple(kept.values())
