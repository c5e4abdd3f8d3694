"""Judges one cluster: every state where a rule must never be broken, and a few times a second all others."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from lab.invariants.catalogue import ALL
from lab.invariants.grace_tracker import GraceTracker, PendingBreach
from lab.invariants.model import Invariant, Violation
from lab.invariants.scope import Scope, known_faults
from lab.invariants.state import HOST, StateStore
from lab.kube.informers import InformerEvent, InformerSource

LOOK_SECONDS = 0.2
"""At most so often are rules with a grace judged: a hundred pods at once make a thousand changes."""

_STILL = ("Node",)
"""Kinds that change by themselves: the kubelet writes into its Node every few seconds."""


class Evaluator:
    """One scope's state and its breaches. Not thread-safe.

    Args:
        scope: what is judged.
        invariants: by which rules.
        zero: the time of day (UTC) at second 0 of the clock that ``now`` comes from.
    """

    def __init__(self, scope: Scope, zero: datetime, invariants: Iterable[Invariant] = ALL) -> None:
        self.scope = scope
        self.invariants = tuple(invariants)
        self.ledger = StateStore(self.invariants, scope.tenants, scope.own_kai, inside=bool(scope.name))
        faults = known_faults(scope.kai_version)
        notes = {
            invariant.id: "; ".join(faults[name] for name in invariant.defects if name in faults)
            for invariant in self.invariants
        }
        self.tracker = GraceTracker(zero, scope.side, {key: note for key, note in notes.items() if note})
        self.changed_at = float("-inf")
        """When something last changed that does not change by itself, in seconds of the clock."""
        self.gaps: list[str] = []
        """Watches that broke off: what happened meanwhile was seen as one step."""
        self._zero = zero
        self._dirty: set[tuple[bool, str]] = set()
        self._judged: set[str] = set()
        self._looked = float("-inf")

    def sources(self) -> tuple[InformerSource, ...]:
        host = InformerSource(f"{self.scope.name}/", self.scope.cluster, self.ledger.kinds)
        kinds = self.ledger.tenant_kinds
        return (
            host,
            *(InformerSource(f"{self.scope.name}/{t}", c, kinds) for t, c in self.scope.tenants.items() if kinds),
        )

    def hear(self, side: str, news: InformerEvent, now: float) -> list[Violation]:
        """Take news in, and judge at once what must hold in every state."""
        corner = self.ledger.take(side, news)
        if news.trouble and self.ledger.read:
            self.gaps.append(f"{self.at(now):%H:%M:%S} {side or 'cluster'} {news.kind}: {news.trouble}")
        if not (news.trouble or news.refused):
            self._dirty.add((side != HOST, news.kind))
        if news.changes and news.kind not in _STILL:
            self.changed_at = now
        if not corner:
            return []
        scene = self.ledger.corner(corner, self.at(now))
        return [
            violation
            for invariant in self.invariants
            if not invariant.grace and not self.ledger.why_not(invariant)
            for violation in self.tracker.add(invariant, invariant.apply(scene), now)
        ]

    def look(self, now: float) -> list[Violation]:
        """Judge whatever may have changed since the last look, and tell what has stood for too long."""
        told: list[Violation] = []
        if self._dirty:
            scene = self.ledger.scene(self.at(now))
            for invariant in self.invariants:
                if self.ledger.why_not(invariant):
                    self.tracker.forget(invariant)
                elif self._affected(invariant):
                    self._judged.add(invariant.id)
                    told += self.tracker.see(invariant, invariant.apply(scene), now)
            self._dirty.clear()
        self._looked = now
        return told + self.tracker.ripe(now)

    def next_look(self) -> float:
        """When to look again, in seconds of the clock; infinity while nothing changes."""
        due = self.tracker.next_due()
        soon = self._looked + LOOK_SECONDS if self._dirty else float("inf")
        return soon if due is None else min(soon, max(due, self._looked) + 0.001)

    def waiting(self, since: float | None = None) -> list[PendingBreach]:
        """Breaches within their grace; with ``since`` only those that stood at that time."""
        return self.tracker.waiting(since)

    def judged(self, invariant: Invariant) -> bool:
        """Whether the invariant was judged at least once."""
        return invariant.id in self._judged

    def at(self, now: float) -> datetime:
        """The time of day of a second of the clock."""
        return self._zero + timedelta(seconds=now)

    def _affected(self, invariant: Invariant) -> bool:
        if invariant.id not in self._judged:
            return True
        return any(kind in (invariant.tenant_needs if tenant else invariant.needs) for tenant, kind in self._dirty)
