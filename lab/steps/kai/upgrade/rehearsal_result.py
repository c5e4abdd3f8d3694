"""Result of the rehearsal of another KAI version: green, red with reasons, or not proven. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lab.invariants import InvariantReport
from lab.steps.kai.upgrade.change import Change
from lab.steps.kai.upgrade.smoke_test import SmokeTest
from lab.steps.kai.upgrade.workload_snapshot import SnapshotDiff


@dataclass(frozen=True)
class Suites:
    """Result of the suites."""

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
    later: bool = False
    """They run after a later version of the same path."""


@dataclass(frozen=True)
class Rehearsal:
    """A rehearsed change of the KAI in a cluster."""

    tenant: str
    """Empty: the lab's own cluster."""
    before: str
    """The version before."""
    version: str
    """The rehearsed version."""
    change: Change | None
    """None: failed with ``error``."""
    error: str = ""
    trials: tuple[SmokeTest, ...] = ()
    suites: Suites = Suites(ran=False)
    load: tuple[SmokeTest, ...] = ()
    """Workloads that the rehearsal started before the change, to run through it."""
    under_load: SnapshotDiff | None = None
    """Effect on all workloads, the load too, after the smoke tests; None: not compared."""
    outcome: SnapshotDiff | None = None
    """Effect on the earlier workloads after everything; None: not compared."""
    invariants: InvariantReport | None = None
    """The invariants of the cluster during the change and the smoke tests; None: not watched."""
    unwatched: str = ""
    """Why they were not watched."""
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
        lines = [f"load {one.name}: {one.skipped}" for one in self.load if one.unproven]
        lines += [f"smoke test {trial.name}: {trial.skipped}" for trial in self.trials if trial.unproven]
        if not self.trials:
            lines.append("smoke tests: none ran")
        lines += [self.unwatched] if self.unwatched else []
        if self.invariants is not None:
            lines += [f"invariant {line}" for line in self.invariants.unread]
        if self.suites.later:
            return tuple(lines)
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
        """The version after the rehearsal; empty when a change failed half way."""
        last = self.back or self.change
        return last.after if last is not None and not self.error_back else ""

    JSON = (
        "tenant before version change trials suites load under_load outcome invariants unwatched back "
        "error_back kept rehearsed now verdict reasons missing"
    )

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
        for compared in (self.under_load, self.outcome):
            yield from compared.harm if compared is not None else ()
        if self.invariants is not None:
            yield from (f"invariant {one.rule}: {one.what}" for one in self.invariants.violations)
