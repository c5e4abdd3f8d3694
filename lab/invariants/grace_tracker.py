"""Track how long each breach lasts, and when it exceeds its grace period."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lab.findings import Finding
from lab.invariants.model import Invariant, Violation


@dataclass
class PendingBreach:
    """A current breach."""

    invariant: Invariant
    breach: Finding
    since: float
    reported: bool = False

    @property
    def due(self) -> float:
        """When it becomes a violation, in seconds of the clock."""
        return self.since + self.invariant.grace


class GraceTracker:
    """The current breaches of one cluster.

    ``zero`` is the time of day (UTC) at second 0 of the clock that ``now`` comes from, ``side`` the cluster in
    violations. ``notes`` are lines for the evidence of violations, by id of the invariant; they may be replaced.
    """

    def __init__(self, zero: datetime, side: str, notes: Mapping[str, str]) -> None:
        self._zero = zero
        self._side = side
        self.notes = notes
        self._breaches: dict[tuple[str, str], PendingBreach] = {}

    def add(self, invariant: Invariant, found: Iterable[Finding], now: float) -> None:
        """Add breaches of one invariant in a part of the cluster."""
        for breach in found:
            pending = self._breaches.setdefault((invariant.id, breach.subject), PendingBreach(invariant, breach, now))
            if not pending.reported:
                pending.breach = breach

    def replace(self, invariant: Invariant, found: Iterable[Finding], now: float) -> None:
        """Set all breaches of one invariant in the whole cluster; all others have ended."""
        current = {breach.subject: breach for breach in found}
        for key in [k for k in self._breaches if k[0] == invariant.id and k[1] not in current]:
            del self._breaches[key]
        self.add(invariant, current.values(), now)

    def expired(self, now: float) -> list[Violation]:
        """The breaches that have exceeded their grace period, each once."""
        violations = []
        for pending in self._breaches.values():
            if not pending.reported and (now > pending.due or not pending.invariant.grace):
                pending.reported = True
                violations.append(self._violation(pending, now))
        return violations

    def next_due(self) -> float | None:
        """When the next breach becomes a violation, unless it ends before."""
        return min((pending.due for pending in self.waiting()), default=None)

    def waiting(self, since: float | None = None) -> list[PendingBreach]:
        """Breaches within their grace period; with ``since`` only those that already existed at that time."""
        return [p for p in self._breaches.values() if not p.reported and (since is None or p.since <= since)]

    def violated(self) -> frozenset[tuple[str, str]]:
        """Invariant and subject of the current breaches that are violations."""
        return frozenset(key for key, pending in self._breaches.items() if pending.reported)

    def _violation(self, pending: PendingBreach, now: float) -> Violation:
        note = self.notes.get(pending.invariant.id)
        evidence = (*pending.breach.evidence, *([note] if note else ()))
        return Violation(
            **{**vars(pending.breach), "side": self._side, "evidence": evidence},
            since=self._zero + timedelta(seconds=pending.since),
            reported=self._zero + timedelta(seconds=now),
        )
