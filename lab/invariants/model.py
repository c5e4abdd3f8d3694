"""What an invariant is, and what comes of looking at one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lab.invariants.cluster_state import ClusterState


@dataclass(frozen=True)
class Breach:
    """Something that is wrong in one state of the cluster."""

    key: str
    """The same as long as the same thing is wrong: a GPU, a group, a pod."""
    what: str
    """One sentence with the figures."""
    evidence: tuple[str, ...] = ()
    """The objects that prove it."""


Rule = Callable[[ClusterState], Iterable[Breach]]
"""Pure: the same state gives the same breaches."""


@dataclass(frozen=True)
class Invariant:
    """A sentence that is true of every state of a cluster, or of every state that lasts.

    A breach is a violation once it has stood for longer than ``grace``. With a grace of 0 it must never be, not
    even between two polls; such a rule looks at pods and nodes only, because the watches of different kinds run
    apart by moments.
    """

    id: str
    statement: str
    rule: Rule
    needs: tuple[str, ...]
    """Kinds without which it cannot be judged."""
    grace: float = 0.0
    """Seconds."""
    why_grace: str = ""
    """Where the number comes from."""
    tenant_needs: tuple[str, ...] = ()
    """Kinds that it looks at in tenants; it is judged only where tenants are named."""
    defects: tuple[str, ...] = ()
    """Known faults of KAI that break it, by their ids in lab/kai/lines."""


@dataclass(frozen=True)
class Violation:
    """An invariant that was broken."""

    invariant: str
    """Its id."""
    statement: str
    where: str
    """The cluster: empty for the one that was named, otherwise a tenant with a KAI of its own."""
    key: str
    what: str
    since: datetime
    """When the breach was first seen (UTC)."""
    told: datetime
    """When it had stood for too long."""
    evidence: tuple[str, ...] = ()
    defect: str = ""
    """The known defect of KAI that is proven to have done it (lab/kai/lines); empty: none is."""

    def lines(self) -> list[str]:
        """The violation in words, the evidence indented."""
        where = f" in tenant {self.where}" if self.where else ""
        stood = (self.told - self.since).total_seconds()
        when = f"at {self.since:%H:%M:%S}" + (f" for more than {stood:.0f} s" if stood >= 1 else "")
        return [f"{self.invariant}{where} {when}: {self.what}", *(f"  {line}" for line in self.evidence)]

    def as_json(self) -> dict[str, Any]:
        """The violation as plain data."""
        return {
            "invariant": self.invariant,
            "statement": self.statement,
            "where": self.where,
            "key": self.key,
            "what": self.what,
            "since": self.since.isoformat(),
            "told": self.told.isoformat(),
            "evidence": list(self.evidence),
            "defect": self.defect,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Violation:
        """The violation that ``as_json`` gave."""
        times = {key: datetime.fromisoformat(data[key]) for key in ("since", "told")}
        return cls(**{**data, **times, "evidence": tuple(data["evidence"])})
