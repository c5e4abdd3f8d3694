"""Whether a workload has come to rest: how each pod stands, and since when nothing has changed. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.compare.recording import PodSeen
from lab.objects.views import PodView

CALM = 2.0
"""Seconds without a change after which a workload of which every pod runs has come to rest."""

PATIENT = 10.0
"""The same where pods are refused: KAI may still evict or move others for them, a cycle takes about a second."""


@dataclass
class SettledPod:
    """How the pods of a tenant stand, and when anything about it changed last."""

    moved: float = 0.0
    seen: dict[str, str] = field(default_factory=dict)
    """UID → how it stands."""

    def note(self, pod: PodSeen) -> None:
        state = "gone" if pod.gone else stands(pod.pod.view)
        if self.seen.get(pod.uid) != state:
            self.seen[pod.uid] = state
            self.moved = pod.at

    def calm(self, expected: int) -> float | None:
        """Seconds without a change that make it rest; None while something is still to come."""
        states = {state.partition(" ")[0] for state in self.seen.values()}
        if len(self.seen) < expected or "moving" in states:
            return None
        return PATIENT if "refused" in states else CALM


def stands(pod: PodView) -> str:
    """How a pod stands: ``done``, ``refused``, or ``moving`` and where it is on its way."""
    if pod.ended or (pod.phase == "Running" and pod.ready and not pod.deleting):
        return "done"
    refused = any((c.type, c.status, c.reason) == ("PodScheduled", "False", "Unschedulable") for c in pod.conditions)
    if not pod.node and refused and not pod.deleting:
        return "refused"
    return f"moving {pod.phase} {pod.node} {pod.deleting}"
