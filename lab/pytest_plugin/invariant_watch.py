"""Watches invariants during one test run: the violations, and which of them fail the run.

``lab.pytest_plugin.invariants`` starts it, with pytest-xdist in the controller.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from lab.invariants import InvariantReport, Violation, Watcher, broken
from lab.invariants.run_log import ViolationLog, names_a_test
from lab.operations.verify import scopes_of_lab
from lab.session.lab import Lab

SETTLE_SECONDS = 35.0
"""Longest wait at the end of a run for breaches to clear: a reservation pod's grace period and a few seconds."""

NODEID = "kailab::invariants"
"""Test id in reports for violations that belong to no test."""


class Watch:
    """The watcher of one run, and its result."""

    def __init__(self, log: ViolationLog, *, shared: bool = False) -> None:
        self.log = log
        self.shared = shared
        """Whether others use the cluster: a violation that names no test is then theirs."""
        self.report: InvariantReport | None = None
        self.trouble = ""
        """Reason why watching ended before the run."""
        self._ran: list[tuple[str, float, float]] = []

    @contextlib.contextmanager
    def over(self, lab: Lab) -> Iterator[None]:
        """Watch while the tests run, and afterwards until breaches have cleared."""
        with Watcher(scopes_of_lab(lab), on_violation=self.log.add) as watcher:
            self._try(watcher.look)  # violations from before the run belong to no test
            if not self.trouble:
                watcher.start()
            yield
            watcher.stop()
            if watcher.trouble is not None:
                self.trouble = str(watcher.trouble).partition("\n")[0]
            elif not self.trouble:
                self._try(lambda: watcher.settle(SETTLE_SECONDS))
            self.report = watcher.report()

    def _try(self, act: Callable[[], None]) -> None:
        """Keep an error of the watcher for the summary: the tests have results of their own."""
        try:
            act()
        except Exception as error:  # noqa: BLE001 - see above
            self.trouble = str(error).partition("\n")[0] or type(error).__name__

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record when each test ran, for violations that belong to no test."""
        if report.when == "call":
            self._ran.append((report.nodeid, report.start, report.stop))

    def of_others(self) -> tuple[Violation, ...]:
        """The violations in a cluster that others use that name no test."""
        return tuple(one for one in self.log.violations() if self.shared and not names_a_test(one))

    def failure(self) -> str:
        """Describe the violations that belong to no test; empty without any."""
        left = tuple(one for one in self.log.violations() if not self.shared or names_a_test(one))
        if not left:
            return ""
        times = [violation.since.timestamp() for violation in left]
        then = [test for test, begin, end in self._ran if any(begin <= time <= end for time in times)]
        text = str(broken(left, f"{len(left)} violations of invariants that belong to no single test"))
        return "\n".join([text, *(f"  ran then: {test}" for test in dict.fromkeys(then))])


def fail_run(config: pytest.Config, text: str) -> None:
    """Report a failed test on behalf of the run, so that every report and the exit status show it."""
    for when in ("setup", "call", "teardown"):
        failed = when == "call"
        report = pytest.TestReport(
            nodeid=NODEID,
            location=("kailab", None, "invariants"),
            keywords={},
            outcome="failed" if failed else "passed",
            longrepr=text if failed else None,
            when=when,
        )
        config.hook.pytest_runtest_logreport(report=report)
