"""What a rehearsal of another KAI version found: green, or red with the reasons. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lab.tenants.upgrade.smoke_test import SmokeTest
from lab.tenants.upgrade.upgrade import Change
from lab.tenants.upgrade.workload_snapshot import SnapshotDiff


@dataclass(frozen=True)
class Suites:
    """The suites that ran inside the tenant.

    Attributes:
        ran: whether any did.
        failed: ids of tests that failed, with the first line of the reason.
        summary: pytest's last line, or why none ran.
        folder: where all that pytest said is kept, and what the cluster looked like when a test failed.
    """

    ran: bool
    failed: tuple[str, ...] = ()
    summary: str = ""
    folder: str = ""


@dataclass(frozen=True)
class Rehearsal:
    """A rehearsed change of a tenant's KAI.

    Attributes:
        tenant: its name.
        before: version that was there.
        version: version that was rehearsed.
        change: how the change went; None: it broke off, and ``error`` says why.
        error: what broke it off.
        trials: pods that tried the new version.
        suites: tests that ran inside.
        outcome: what became of all that ran before, looked at after everything; None: not looked at.
        back: how going back went; None: it was not gone back.
        error_back: what broke going back off.
        kept: red, but left at the new version because that was asked for.
    """

    tenant: str
    before: str
    version: str
    change: Change | None
    error: str = ""
    trials: tuple[SmokeTest, ...] = ()
    suites: Suites = Suites(ran=False)
    outcome: SnapshotDiff | None = None
    back: Change | None = None
    error_back: str = ""
    kept: bool = False

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the verdict is red; empty: it is green."""
        return tuple(dict.fromkeys(self._reasons()))

    @property
    def green(self) -> bool:
        """Whether the tenant can have that version."""
        return not self.reasons

    @property
    def now(self) -> str:
        """The version that the tenant has now; empty: a change broke off half way."""
        if self.error_back:
            return ""
        last = self.back or self.change
        return last.after if last is not None else ""

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant": self.tenant,
            "before": self.before,
            "version": self.version,
            "now": self.now,
            "verdict": "green" if self.green else "red",
            "reasons": self.reasons,
            "change": self.change,
            "trials": self.trials,
            "suites": self.suites,
            "outcome": self.outcome,
            "back": self.back,
            "error_back": self.error_back,
            "kept": self.kept,
        }

    def _reasons(self) -> Iterator[str]:
        if self.error:
            yield self.error
        if self.change is not None:
            yield from self.change.problems
            yield from self.change.comparison.harm
        yield from (f"trial pod {trial.name}: {trial.problem}" for trial in self.trials if trial.problem)
        if self.suites.failed:
            names = [line.split(" - ")[0] for line in self.suites.failed[:4]]
            yield f"{len(self.suites.failed)} tests failed: {', '.join(names)}"
        if self.outcome is not None:
            yield from self.outcome.harm
