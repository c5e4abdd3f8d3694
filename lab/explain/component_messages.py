"""Messages about a pod, grouped by component: admission, scheduler, binder, kubelet.

Events outlive their cause by an hour. So only the newest event of each reason and reporter counts, and conditions,
which are kept up to date, come first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab.objects.views import EventView, PodView
from lab.text import one_line

REFUSALS = ("FailedCreate", "SyncError", "SyncWarning")
"""Of controllers that cannot create a pod; of vCluster's syncer (pkg/patcher/apply.go, pods/syncer.go, v0.36.1)."""
VERDICTS = ("Unschedulable", "FailedScheduling", "NotReady", "StaleJob", "Pipelined", "Evict", "Preempted")
"""Of KAI's scheduler (status_updater/default_status_updater.go, 0.7.11 to 0.17.0) and of kube-scheduler."""
BIND_ERRORS = ("BindingError", "FailedBinding")
PLACED = ("Scheduled", "Bound")


@dataclass(frozen=True)
class ComponentMessage:
    """One message of a component."""

    sender: str
    """``event FailedScheduling (default-scheduler)``, ``condition PodScheduled``, …"""
    text: str

    @property
    def line(self) -> str:
        return f"{self.sender}: {one_line(self.text, 400)}"


def of_event(event: EventView) -> ComponentMessage:
    """Return the message of an event."""
    reporter = f" ({event.reporter})" if event.reporter else ""
    time = f" at {event.last:%H:%M:%S}" if event.last else ""
    times = f" ×{event.count}" if event.count > 1 else ""
    return ComponentMessage(f"event {event.reason}{reporter}{time}{times}", event.message)


def of_conditions(pod: PodView, *types: str) -> tuple[ComponentMessage, ...]:
    """Return the pod's conditions of these types that are not True."""
    return tuple(
        ComponentMessage(f"condition {c.type}={c.status} ({c.reason})", c.message)
        for c in pod.conditions
        if c.type in types and c.status != "True" and (c.message or c.reason)
    )


def newest(events: Iterable[EventView], reasons: Iterable[str]) -> tuple[EventView, ...]:
    """Return the newest event of each reason and reporter; ``events`` are oldest first."""
    wanted, last = frozenset(reasons), {}
    for event in events:
        if event.reason in wanted:
            last[event.reason, event.reporter, event.uid] = event
    return tuple(reversed(last.values()))


def unique(messages: Iterable[ComponentMessage]) -> tuple[ComponentMessage, ...]:
    """Return the first message of each text."""
    kept: dict[str, ComponentMessage] = {}
    for message in messages:
        kept.setdefault(" ".join(message.text.split()), message)
    return tuple(kept.values())


def pod_line(pod: PodView) -> str:
    """Return a pod with its phase and why it waits, for evidence."""
    return f"pod {pod.namespace}/{pod.name}: {pod.phase}, {', '.join(pod.waiting_reasons) or 'not ready'}"
