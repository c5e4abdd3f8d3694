"""An explanation: how far a pod has come, and why it gets no further."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lab.findings import Certainty, Finding


class PodStage(StrEnum):
    """How far a pod has come; every rule names the stages in which it makes sense."""

    MISSING = "missing"
    """A workload wants pods, and some of them were never created."""
    UNBOUND = "unbound"
    """No node yet."""
    BOUND = "bound"
    """On a node, and not Ready."""
    RUNNING = "running"
    """Running and Ready."""
    DELETING = "deleting"
    FAILED = "failed"
    SUCCEEDED = "succeeded"


@dataclass(frozen=True)
class Explanation:
    """Why a pod does not run, or that it does."""

    namespace: str
    name: str
    kind: str
    """Pod, or the kind of the workload whose pods are missing."""
    stage: PodStage
    summary: str
    """Where it stands, in a line."""
    findings: tuple[Finding, ...]
    """The most fundamental first."""
    side: str = ""
    unread: tuple[str, ...] = ()
    """Kinds that could not be read: rules that need them said nothing."""
    facts: Mapping[str, str] | None = None
    """What the pod asks for and where it goes: queue, PodGroup, scheduler, node, …"""

    @property
    def settled(self) -> bool:
        """Whether it runs or has succeeded, or a reason was found why it does not."""
        return bool(self.findings) or self.stage in (PodStage.RUNNING, PodStage.SUCCEEDED)

    def lines(self, most: int = 3) -> list[str]:
        """Short plain text for the evidence of a failed wait: the ``most`` first reasons."""
        title = f"{self.kind} {self.namespace}/{self.name}: {self.summary}"
        told = []
        for finding in self.findings[:most]:
            sure = "" if finding.certainty is Certainty.CERTAIN else f" ({finding.certainty.value})"
            told.append(f"why [{finding.rule}]{sure}: {finding.what}")
            told += [f"  {line}" for line in finding.evidence[:4]]
            told.append(f"  next: {finding.next}")
        if len(self.findings) > most:
            tenant = f" --tenant {self.side.removeprefix('tenant ')}" if self.side.startswith("tenant ") else ""
            more = f"lab explain {self.namespace}/{self.name}{tenant}"
            told.append(f"… and {len(self.findings) - most} more reasons: {more}")
        return [title, *told]

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "side": self.side,
            "stage": self.stage.value,
            "summary": self.summary,
            "settled": self.settled,
            "facts": dict(self.facts or {}),
            "findings": [finding.as_json() for finding in self.findings],
            "unread": list(self.unread),
        }
