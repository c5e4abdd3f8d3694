"""The watch over one run of the suites: what was found, and what of it fails the run.

``lab.pytest_plugin.invariants`` starts it, in the process that hands out the tests.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from lab.invariants import InvariantReport, Watcher, broken
from lab.invariants.run_log import ViolationLog
from lab.operations.verify import scopes_of_lab
from lab.session.lab import Lab

SETTLE_SECONDS = 35.0
"""How long the end of a run waits for what may pass: the grace of a reservation pod and a little more."""

NODEID = "kailab::invariants"
"""The test that fails, in reports, for what is nobody's."""


class Watch:
    """The watcher of one run, and what came of it."""

    def __init__(self, blotter: ViolationLog) -> None:
        self.blotter = blotter
        self.report: InvariantReport | None = None
        self.trouble = ""
        """Why watching ended before the run."""
        self._ran: list[tuple[str, float, float]] = []

    @contextlib.contextmanager
    def over(self, lab: Lab) -> Iterator[None]:
        """Watch while the tests run, and a little longer for what may pass."""
        with Watcher(scopes_of_lab(lab), tell=self.blotter.tell) as watcher:
            self._keep(watcher.look)  # what was wrong before is no test's doing
            if not self.trouble:
                watcher.start()
            yield
            watcher.stop()
            if watcher.trouble is not None:
                self.trouble = str(watcher.trouble).partition("\n")[0]
            elif not self.trouble:
                self._keep(lambda: watcher.settle(SETTLE_SECONDS))
            self.report = watcher.report()

    def _keep(self, act: Callable[[], None]) -> None:
        """Trouble of watching is kept for the summary: the tests have results of their own."""
        try:
            act()
        except Exception as error:  # noqa: BLE001 - see above
            self.trouble = str(error).partition("\n")[0] or type(error).__name__

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember when a test ran, for what is nobody's."""
        if report.when == "call":
            self._ran.append((report.nodeid, report.start, report.stop))

    def failure(self) -> str:
        """What is wrong and nobody's; empty when there is nothing."""
        left = tuple(self.blotter.violations())
        if not left:
            return ""
        times = [violation.since.timestamp() for violation in left]
        then = [test for test, begin, end in self._ran if any(begin <= time <= end for time in times)]
        text = str(broken(left, f"{len(left)} violations of invariants that belong to no single test"))
        return "\n".join([text, *(f"  ran then: {test}" for test in dict.fromkeys(then))])


def fail_run(config: pytest.Config, text: str) -> None:
    """Report a failed test that stands for the run, so that every report and the exit status have it."""
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
