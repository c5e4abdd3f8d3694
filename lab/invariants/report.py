"""The result of a verification."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from lab.errors import InvariantBroken
from lab.findings import Finding
from lab.invariants.model import Invariant, Violation
from lab.kube.informers import ABSENT

_SHOWN = 8
"""Violations in an error."""

NO_TENANTS = "no tenants are given"
"""Why invariants of tenants are not evaluated without any."""

State = Literal["held", "broken", "not judged"]


@dataclass(frozen=True)
class InvariantResult:
    """The result of one invariant in one cluster."""

    invariant: Invariant
    side: str
    """Empty for the given cluster, ``tenant NAME`` for that of a tenant with its own KAI."""
    violations: tuple[Violation, ...] = ()
    why: str = ""
    """The reason why it was not evaluated."""
    waiting: tuple[Finding, ...] = ()
    """Breaches at the end that were within their grace period."""

    @property
    def state(self) -> State:
        if self.violations:
            return "broken"
        return "not judged" if self.why else "held"

    JSON = "*invariant side state why findings=violations within_grace=waiting"


@dataclass(frozen=True)
class InvariantReport:
    """The results of all invariants."""

    at: datetime
    """End of the verification (UTC)."""
    seconds: float
    """Its duration."""
    results: tuple[InvariantResult, ...]
    gaps: tuple[str, ...] = ()
    """Broken watches: changes of such a time were seen as one step, or not at all."""
    quiet: bool | None = None
    """Whether the cluster became quiet; None if the verification did not wait for that."""

    @property
    def violations(self) -> tuple[Violation, ...]:
        """All violations, oldest first."""
        return tuple(sorted((v for result in self.results for v in result.violations), key=lambda v: v.since))

    @property
    def ok(self) -> bool:
        """Whether nothing was broken, even if some invariants were not evaluated."""
        return not self.violations

    @property
    def unread(self) -> tuple[str, ...]:
        """Invariants that apply, but were not evaluated as something does not answer, with the reason."""
        return tuple(
            f"{result.invariant.id}{f' in {result.side}' if result.side else ''}: {result.why}"
            for result in self.results
            if result.why and result.why != NO_TENANTS and not result.why.endswith(ABSENT)
        )

    JSON = "ok at seconds invariants=results gaps unread quiet"

    def error(self) -> InvariantBroken:
        names = sorted({violation.rule for violation in self.violations})
        return broken(self.violations, f"{len(names)} of {len(self.results)} invariants broken: {', '.join(names)}")


def broken(violations: tuple[Violation, ...], what: str) -> InvariantBroken:
    """The error for violations, with the first of them as evidence."""
    evidence = [line for violation in violations[:_SHOWN] for line in violation.lines()]
    if len(violations) > _SHOWN:
        evidence.append(f"… and {len(violations) - _SHOWN} more")
    return InvariantBroken(what, evidence=evidence, fix="check the pods and GPU groups in the evidence")
