"""The recording of one run: frozen views with local arrival times in seconds after the run began. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.objects.fields import Obj, annotations_of, parts
from lab.objects.kai import PodGroupView
from lab.objects.views import EventView, PodView
from lab.snapshot.pod_info import PodInfo

TENANT, HOST = "tenant", "host"

ACTION_ANNOTATION = "evictor-action-type"
"""On KAI's Evict events: reclaim, preempt or consolidation (default_status_updater.go, KAI 0.7.11 to 0.17.0)."""

CALM = 2.0
"""Seconds without a change after which a workload whose pods all run is settled."""

PATIENT = 10.0
"""The same if pods are refused: KAI may still evict or move others for them, a cycle takes about a second."""


@dataclass(frozen=True)
class PodSeen:
    """A pod at the time ``at``, named as its owner sees it; ``uid`` is the tenant's also on the host."""

    at: float
    side: str
    uid: str
    pod: PodInfo
    gone: bool = False


@dataclass(frozen=True)
class GroupSeen:
    """A PodGroup at the time ``at``."""

    at: float
    side: str
    group: PodGroupView


@dataclass(frozen=True)
class EvictSeen:
    """KAI's event about the eviction of a pod of a PodGroup."""

    at: float
    group: str
    action: str


@dataclass(frozen=True)
class Created:
    """The request to create an object."""

    at: float
    workload: str


@dataclass(frozen=True)
class Recording:
    """Everything recorded in ``seconds``."""

    seconds: float
    settled: bool
    created: tuple[Created, ...] = ()
    pods: tuple[PodSeen, ...] = ()
    groups: tuple[GroupSeen, ...] = ()
    evictions: tuple[EvictSeen, ...] = ()
    troubles: tuple[str, ...] = ()


def evictions(at: float, obj: Obj) -> list[EvictSeen]:
    """The eviction that an event reports, if it is one of KAI's."""
    event = EventView.of(obj)
    if event.reason != "Evict" or event.kind != "PodGroup":
        return []
    return [EvictSeen(at, event.name, annotations_of(parts(obj)[0]).get(ACTION_ANNOTATION, ""))]


@dataclass
class Settling:
    """The state of each pod of a tenant, and when one changed last."""

    changed: float = 0.0
    states: dict[str, str] = field(default_factory=dict)
    """UID → ``progress`` of the pod."""

    def note(self, pod: PodSeen) -> None:
        state = "gone" if pod.gone else progress(pod.pod.view)
        if self.states.get(pod.uid) != state:
            self.states[pod.uid] = state
            self.changed = pod.at

    def calm(self, expected: int) -> float | None:
        """Seconds without a change after which the pods are settled; None while pods are missing or on their way."""
        states = {state.partition(" ")[0] for state in self.states.values()}
        if len(self.states) < expected or "moving" in states:
            return None
        return PATIENT if "refused" in states else CALM


def progress(pod: PodView) -> str:
    """``done``, ``refused``, or ``moving`` with the pod's state."""
    if pod.ended or (pod.phase == "Running" and pod.ready and not pod.deleting):
        return "done"
    refused = any((c.type, c.status, c.reason) == ("PodScheduled", "False", "Unschedulable") for c in pod.conditions)
    if not pod.node and refused and not pod.deleting:
        return "refused"
    return f"moving {pod.phase} {pod.node} {pod.deleting}"
