"""Invariants, breaches and violations."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lab.findings import Certainty, Finding, Rule
from lab.invariants.cluster_state import ClusterState


def breach(key: str, what: str, evidence: tuple[str, ...] = ()) -> Finding:
    """A breach in one state of the cluster; ``key`` (a GPU, a group, a pod) stays the same while the breach lasts."""
    return Finding(what, subject=key, evidence=evidence)


@dataclass(frozen=True)
class Invariant(Rule[[ClusterState]]):
    """A statement, its title, that is true of every state of a cluster that lasts longer than ``grace``.

    A grace of 0 means every single state, even between two polls. Such a rule depends on pods and nodes alone, because
    watches of different kinds are not synchronized.
    """

    needs: tuple[str, ...] = ()
    """Kinds without which it cannot be evaluated."""
    grace: float = 0.0
    """Seconds."""
    why_grace: str = ""
    """Source of the number."""
    tenant_needs: tuple[str, ...] = ()
    """Kinds that it reads in tenants; it is evaluated only if tenants are given."""
    defects: tuple[str, ...] = ()
    """Known defects of KAI that break it, by their ids in lab/kai/defects.toml."""

    JSON = f"{Rule.JSON} grace why_grace"


@dataclass(frozen=True)
class Violation(Finding):
    """A breach that exceeded its grace period."""

    since: datetime = field(kw_only=True)
    """When the breach was first seen (UTC)."""
    reported: datetime = field(kw_only=True)
    """When it exceeded its grace period (UTC)."""
    defect: str = ""
    """The known defect of KAI that provably caused it (lab/kai/defects.toml)."""

    def lines(self) -> list[str]:
        """The violation in words, with indented evidence."""
        where = f" in {self.side}" if self.side else ""
        lasted = (self.reported - self.since).total_seconds()
        when = f"at {self.since:%H:%M:%S}" + (f" for more than {lasted:.0f} s" if lasted >= 1 else "")
        return [f"{self.rule}{where} {when}: {self.what}", *(f"  {line}" for line in self.evidence)]

    JSON = f"{Finding.JSON} since reported defect"

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Violation:
        times = {key: datetime.fromisoformat(data[key]) for key in ("since", "reported")}
        certainty = Certainty(data["certainty"])
        return cls(**{**data, **times, "certainty": certainty, "evidence": tuple(data["evidence"])})
