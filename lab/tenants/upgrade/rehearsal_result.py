"""Result of the rehearsal of another KAI version: green, red with reasons, or not proven. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from lab.tenants.upgrade.smoke_test import SmokeTest
from lab.tenants.upgrade.upgrade import Change
from lab.tenants.upgrade.workload_snapshot import SnapshotDiff


@dataclass(frozen=True)
class Suites:
    """Result of the suites inside the tenant."""

    ran: bool
    failed: tuple[str, ...] = ()
    """Ids of failed tests, with the first line of the reason."""
    summary: str = ""
    """pytest's last line, or why no suite ran."""
    folder: str = ""
    """Output of pytest, and the state of the cluster when tests failed."""
    passed: int = 0
    skipped: tuple[str, ...] = ()
    """Reasons of skipped tests, with their number and place."""


@dataclass(frozen=True)
class Rehearsal:
    """A rehearsed change of a tenant's KAI."""

    tenant: str
    before: str
    """The version before."""
    version: str
    """The rehearsed version."""
    change: Change | None
    """None: failed with ``error``."""
    error: str = ""
    trials: tuple[SmokeTest, ...] = ()
    suites: Suites = Suites(ran=False)
    outcome: SnapshotDiff | None = None
    """Effect on workloads after everything; None: not compared."""
    back: Change | None = None
    """The return to the version before; None: none, or failed with ``error_back``."""
    error_back: str = ""
    kept: bool = False
    """Red, but left at the new version as requested."""
    rehearsed: bool = True
    """False for a rollback, which runs neither smoke tests nor suites."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the rehearsal is red; empty when nothing failed."""
        return tuple(dict.fromkeys(self._reasons()))

    @property
    def missing(self) -> tuple[str, ...]:
        """Tests that did not run, without which a rehearsal that did not fail is not proven."""
        if not self.rehearsed or self.change is None:
            return ()
        lines = [f"smoke test {trial.name}: {trial.skipped}" for trial in self.trials if trial.unproven]
        if not self.trials:
            lines.append("smoke tests: none ran")
        if not self.suites.ran:
            lines.append(f"suites: {self.suites.summary or 'none ran'}")
        elif not (self.suites.passed or self.suites.failed):
            lines.append(f"suites: no test passed ({self.suites.summary})")
        return tuple(lines)

    @property
    def verdict(self) -> Literal["green", "red", "not proven"]:
        return "red" if self.reasons else "not proven" if self.missing else "green"

    @property
    def green(self) -> bool:
        return self.verdict == "green"

    @property
    def now(self) -> str:
        """The tenant's version after the rehearsal; empty when a change failed half way."""
        last = self.back or self.change
        return last.after if last is not None and not self.error_back else ""

    def as_json(self) -> dict[str, Any]:
        fields = {name: value for name, value in vars(self).items() if name != "error"}  # among the reasons
        judged = {"verdict": self.verdict, "reasons": self.reasons, "missing": self.missing}
        return {**fields, "now": self.now, **judged}

    def _reasons(self) -> Iterator[str]:
        if self.error:
            yield self.error
        if self.change is not None:
            yield from self.change.problems
            yield from self.change.comparison.harm
        yield from (f"smoke test {trial.name}: {trial.problem}" for trial in self.trials if trial.problem)
        if self.suites.failed:
            names = [line.split(" - ")[0] for line in self.suites.failed[:4]]
            yield f"{len(self.suites.failed)} tests failed: {', '.join(names)}"
        if self.outcome is not None:
            yield from self.outcome.harm
