"""Since when each breach stands, and when it has stood for too long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lab.findings import Finding
from lab.invariants.model import Invariant, Violation


@dataclass
class PendingBreach:
    """A breach that is there now."""

    invariant: Invariant
    breach: Finding
    since: float
    told: bool = False

    @property
    def due(self) -> float:
        """When it becomes a violation, in seconds of the clock."""
        return self.since + self.invariant.grace


class GraceTracker:
    """Remembers breaches between looks.

    Args:
        zero: the time of day (UTC) at second 0 of the clock that ``now`` comes from.
        side: the cluster, for violations.
        notes: id of an invariant → a line for the evidence of its violations.
    """

    def __init__(self, zero: datetime, side: str = "", notes: Mapping[str, str] | None = None) -> None:
        self._zero = zero
        self._side = side
        self._notes = notes or {}
        self._standing: dict[tuple[str, str], PendingBreach] = {}

    def add(self, invariant: Invariant, breaches: Iterable[Finding], now: float) -> list[Violation]:
        """Breaches of one invariant in a part of the cluster; the violations among them."""
        for breach in breaches:
            key = invariant.id, breach.subject
            standing = self._standing.get(key)
            if standing is None:
                self._standing[key] = PendingBreach(invariant, breach, now)
            elif not standing.told:
                standing.breach = breach
        return self.ripe(now)

    def see(self, invariant: Invariant, breaches: Iterable[Finding], now: float) -> list[Violation]:
        """All breaches of one invariant in the whole cluster: those that stood before and are not there ended."""
        found = {breach.subject: breach for breach in breaches}
        for key in [k for k in self._standing if k[0] == invariant.id and k[1] not in found]:
            del self._standing[key]
        return self.add(invariant, found.values(), now)

    def forget(self, invariant: Invariant) -> None:
        """Nothing can be said of this invariant any more."""
        self.see(invariant, (), 0.0)

    def ripe(self, now: float) -> list[Violation]:
        """The breaches that have stood for longer than their grace; each is told once."""
        told = []
        for standing in self._standing.values():
            if not standing.told and (now > standing.due or not standing.invariant.grace):
                standing.told = True
                told.append(self._violation(standing, now))
        return told

    def next_due(self) -> float | None:
        """When the next breach becomes a violation, unless it ends before."""
        return min((s.due for s in self._standing.values() if not s.told), default=None)

    def waiting(self, since: float | None = None) -> list[PendingBreach]:
        """Breaches within their grace; with ``since`` only those that stood at that time."""
        return [s for s in self._standing.values() if not s.told and (since is None or s.since <= since)]

    def _violation(self, standing: PendingBreach, now: float) -> Violation:
        invariant, breach = standing.invariant, standing.breach
        note = self._notes.get(invariant.id)
        evidence = (*breach.evidence, *([note] if note else ()))
        return Violation(
            **{**vars(breach), "side": self._side, "evidence": evidence},
            since=self._zero + timedelta(seconds=standing.since),
            reported=self._zero + timedelta(seconds=now),
        )
