"""What came of watching: a result for each invariant, and the whole as data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from lab.errors import InvariantBroken
from lab.findings import Finding
from lab.invariants.model import Invariant, Violation

State = Literal["held", "broken", "not judged"]


@dataclass(frozen=True)
class InvariantResult:
    """How one invariant fared in one cluster."""

    invariant: Invariant
    side: str
    """Empty for the cluster that was named, otherwise ``tenant NAME`` of one with a KAI of its own."""
    violations: tuple[Violation, ...] = ()
    why: str = ""
    """Why it was not judged."""
    waiting: tuple[Finding, ...] = ()
    """What was wrong at the end, for less than its grace."""

    @property
    def state(self) -> State:
        """Broken by a single violation; held only when it was judged."""
        if self.violations:
            return "broken"
        return "not judged" if self.why else "held"

    def as_json(self) -> dict[str, Any]:
        return {
            **self.invariant.as_json(),
            "side": self.side,
            "state": self.state,
            "why": self.why,
            "findings": [violation.as_json() for violation in self.violations],
            "within_grace": [breach.as_json() for breach in self.waiting],
        }


@dataclass(frozen=True)
class InvariantReport:
    """The results of all invariants."""

    at: datetime
    """When watching ended (UTC)."""
    seconds: float
    """For how long it went on."""
    results: tuple[InvariantResult, ...]
    gaps: tuple[str, ...] = ()
    """When a watch broke off: what happened then was seen as one step, and what passed within was not seen."""
    quiet: bool | None = None
    """Whether the cluster got quiet; None when nobody waited for that."""

    @property
    def violations(self) -> tuple[Violation, ...]:
        """All violations, oldest first."""
        return tuple(sorted((v for result in self.results for v in result.violations), key=lambda v: v.since))

    @property
    def ok(self) -> bool:
        """Whether nothing was broken; it may still be that something was not judged."""
        return not self.violations

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "at": self.at.isoformat(),
            "seconds": round(self.seconds, 3),
            "invariants": [result.as_json() for result in self.results],
            "gaps": list(self.gaps),
            "quiet": self.quiet,
        }

    def error(self) -> InvariantBroken:
        names = sorted({violation.rule for violation in self.violations})
        return broken(self.violations, f"{len(names)} of {len(self.results)} invariants broken: {', '.join(names)}")


def broken(violations: tuple[Violation, ...], what: str, shown: int = 8) -> InvariantBroken:
    """The error for violations; the first of them are the evidence."""
    evidence = [line for violation in violations[:shown] for line in violation.lines()]
    if len(violations) > shown:
        evidence.append(f"… and {len(violations) - shown} more")
    return InvariantBroken(what, evidence=evidence, fix="look at the pods and GPU groups that the evidence names")
