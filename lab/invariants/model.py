"""What an invariant is, and what comes of looking at one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lab.findings import Certainty, Finding, Rule
from lab.invariants.cluster_state import ClusterState


def breach(key: str, what: str, evidence: tuple[str, ...] = ()) -> Finding:
    """Something that is wrong in one state of the cluster.

    Args:
        key: a GPU, a group, a pod: the same as long as the same thing is wrong.
        what: one sentence with the figures.
        evidence: the objects that prove it.
    """
    return Finding(what, subject=key, evidence=evidence)


@dataclass(frozen=True)
class Invariant(Rule[[ClusterState]]):
    """A sentence, its title, that is true of every state of a cluster, or of every state that lasts.

    A breach is a violation once it has stood for longer than ``grace``. With a grace of 0 it must never be, not
    even between two polls; such a rule looks at pods and nodes only, because the watches of different kinds run
    apart by moments.
    """

    needs: tuple[str, ...] = ()
    """Kinds without which it cannot be judged."""
    grace: float = 0.0
    """Seconds."""
    why_grace: str = ""
    """Where the number comes from."""
    tenant_needs: tuple[str, ...] = ()
    """Kinds that it looks at in tenants; it is judged only where tenants are named."""
    defects: tuple[str, ...] = ()
    """Known faults of KAI that break it, by their ids in lab/kai/lines."""

    def as_json(self) -> dict[str, Any]:
        return {**super().as_json(), "grace": self.grace, "why_grace": self.why_grace}


@dataclass(frozen=True)
class Violation(Finding):
    """An invariant that was broken."""

    since: datetime = field(kw_only=True)
    """When the breach was first seen (UTC)."""
    reported: datetime = field(kw_only=True)
    """When it had stood for too long."""
    defect: str = ""
    """The known defect of KAI that is proven to have done it (lab/kai/lines); empty: none is."""

    def lines(self) -> list[str]:
        """The violation in words, the evidence indented."""
        where = f" in {self.side}" if self.side else ""
        stood = (self.reported - self.since).total_seconds()
        when = f"at {self.since:%H:%M:%S}" + (f" for more than {stood:.0f} s" if stood >= 1 else "")
        return [f"{self.rule}{where} {when}: {self.what}", *(f"  {line}" for line in self.evidence)]

    def as_json(self) -> dict[str, Any]:
        return {
            **super().as_json(),
            "since": self.since.isoformat(),
            "reported": self.reported.isoformat(),
            "defect": self.defect,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Violation:
        times = {key: datetime.fromisoformat(data[key]) for key in ("since", "reported")}
        certainty = Certainty(data["certainty"])
        return cls(**{**data, **times, "certainty": certainty, "evidence": tuple(data["evidence"])})
