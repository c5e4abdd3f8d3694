"""An explanation: the stage that a pod has reached, and why it does not get further."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lab.findings import Certainty, Finding


class PodStage(StrEnum):
    """The stage of a pod; every rule names the stages in which it applies."""

    MISSING = "missing"
    """A workload wants pods that were never created."""
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
    """Why a pod does not run, or that it runs."""

    namespace: str
    name: str
    kind: str
    """Pod, or the kind of the workload whose pods are missing."""
    stage: PodStage
    summary: str
    """The pod's state in one line."""
    findings: tuple[Finding, ...]
    """The most fundamental first."""
    side: str = ""
    unread: tuple[str, ...] = ()
    """Kinds that could not be read; the rules that need them found nothing."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Requests, queue, PodGroup, scheduler, node, …"""

    @property
    def settled(self) -> bool:
        """Whether it runs, has succeeded, or has a known reason not to run."""
        return bool(self.findings) or self.stage in (PodStage.RUNNING, PodStage.SUCCEEDED)

    def lines(self, most: int = 3) -> list[str]:
        """Return the first ``most`` reasons as short plain text, for the evidence of a failed wait."""
        lines = [f"{self.kind} {self.namespace}/{self.name}: {self.summary}"]
        for finding in self.findings[:most]:
            certainty = "" if finding.certainty is Certainty.CERTAIN else f" ({finding.certainty.value})"
            lines.append(f"why [{finding.rule}]{certainty}: {finding.what}")
            lines += [f"  {line}" for line in finding.evidence[:4]]
            lines.append(f"  next: {finding.next}")
        if len(self.findings) > most:
            tenant = f" --tenant {self.side.removeprefix('tenant ')}" if self.side.startswith("tenant ") else ""
            command = f"kailab explain {self.namespace}/{self.name}{tenant}"
            lines.append(f"… and {len(self.findings) - most} more reasons: {command}")
        return lines

    JSON = "kind namespace name side stage summary settled facts findings unread"
