"""What one run showed, as frozen views with local arrival times; moments are seconds after the run began."""

from __future__ import annotations

from dataclasses import dataclass

from lab.objects.fields import Obj, annotations_of, parts
from lab.objects.kai import PodGroupView
from lab.objects.views import EventView
from lab.snapshot.pod_info import PodInfo

TENANT, HOST = "tenant", "host"

ACTION_ANNOTATION = "evictor-action-type"
"""On KAI's Evict events: reclaim, preempt or consolidation (default_status_updater.go, KAI 0.7.11 to 0.17.0)."""


@dataclass(frozen=True)
class PodSeen:
    """A pod at the moment ``at``, named as its owner sees it; ``uid`` is the tenant's also on the host."""

    at: float
    side: str
    uid: str
    pod: PodInfo
    gone: bool = False


@dataclass(frozen=True)
class GroupSeen:
    """A PodGroup at the moment ``at``."""

    at: float
    side: str
    group: PodGroupView


@dataclass(frozen=True)
class EvictSeen:
    """KAI's word that it evicted a pod of a PodGroup."""

    at: float
    group: str
    action: str


@dataclass(frozen=True)
class Created:
    """The creation of an object was sent."""

    at: float
    workload: str


@dataclass(frozen=True)
class Recording:
    """All of one run, moments in seconds after its beginning."""

    seconds: float
    settled: bool
    created: tuple[Created, ...] = ()
    pods: tuple[PodSeen, ...] = ()
    groups: tuple[GroupSeen, ...] = ()
    evictions: tuple[EvictSeen, ...] = ()
    troubles: tuple[str, ...] = ()


def evictions(at: float, obj: Obj) -> list[EvictSeen]:
    """What an event says about an eviction by KAI: one, or nothing."""
    event = EventView.of(obj)
    if event.reason != "Evict" or event.kind != "PodGroup":
        return []
    return [EvictSeen(at, event.name, annotations_of(parts(obj)[0]).get(ACTION_ANNOTATION, ""))]
