"""Result of the rehearsal of another KAI version: green, or red with reasons. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the rehearsal is red; empty when green."""
        return tuple(dict.fromkeys(self._reasons()))

    @property
    def green(self) -> bool:
        return not self.reasons

    @property
    def now(self) -> str:
        """The tenant's version after the rehearsal; empty when a change failed half way."""
        last = self.back or self.change
        return last.after if last is not None and not self.error_back else ""

    def as_json(self) -> dict[str, Any]:
        fields = {name: value for name, value in vars(self).items() if name != "error"}  # among the reasons
        return {**fields, "now": self.now, "verdict": "green" if self.green else "red", "reasons": self.reasons}

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
