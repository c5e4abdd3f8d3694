"""``--lab-report FILE``: one HTML page about a run: its tests, the lab's facts, its GPUs before and after.

With pytest-xdist only the controller records, as it receives the reports of all workers.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.gpu.map.model import GpuMap
from lab.objects.redact import redact_text
from lab.pytest_plugin.fixtures import attached
from lab.report.lab_report import LabReport, gpus_of
from lab.report.page import write_page
from lab.report.suite_run import CaseRun, Collector, SuiteRun, suite_file
from lab.session.lab import Lab
from lab.session.run_history import last_record


def register(config: pytest.Config, path: Path) -> None:
    """Record this run into ``path``, unless this process is a worker of pytest-xdist or only lists tests."""
    if not hasattr(config, "workerinput") and not config.getoption("collectonly", default=False):
        config.pluginmanager.register(ReportRecorder(config, path), "kailab-report")


class ReportRecorder:
    """Collects a run and writes its page at the end; an error in either is reported and never fails the run."""

    def __init__(self, config: pytest.Config, path: Path) -> None:
        self.config = config
        self.path = path
        self.collector = Collector()
        self.notes: list[str] = []
        self.before: GpuMap | None = None
        self.written = ""

    def pytest_sessionstart(self) -> None:
        """Read the GPUs before the first test."""
        self.before = self._gpus("before the run")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.collector.add(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a file that cannot be collected as a failed test."""
        if report.failed:
            text = redact_text(report.longreprtext)
            lines = [line for line in text.splitlines() if line.startswith("E ")] or [text]
            why = lines[-1].removeprefix("E ").strip().splitlines()[:1]
            self.collector.put(CaseRun(report.nodeid or "collection", "error", why=next(iter(why), ""), text=text))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Read the GPUs after the last test, and write the page."""
        after = self._gpus("after the run")
        lab = self._lab()
        name = lab.spec.name if lab else str(self.config.getoption("lab_name", default=None) or "?")
        suite = self.collector.run(
            name,
            status=int(exitstatus),
            command=redact_text(shlex.join(["pytest", *sys.argv[1:]])),
            facts=lab.facts() if lab else {},
            before=self.before,
            after=after,
            notes=tuple(dict.fromkeys(self.notes)),
        )
        try:
            if lab:
                self._save(suite, suite_file(lab.paths))
            record = last_record(lab.paths.runs) if lab else None
            self.written = str(write_page(self.path, LabReport(name, suite.facts, record=record, suite=suite)))
        except LabError as error:
            self.notes.append(error.what)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.written:
            terminalreporter.write_line(f"report: {self.written}")
        else:
            terminalreporter.write_line(f"no report: {'; '.join(self.notes)}", yellow=True)

    def _lab(self) -> Lab | None:
        try:
            return attached(self.config)
        except LabError as error:
            self.notes.append(error.what)
            return None

    def _gpus(self, when: str) -> GpuMap | None:
        lab = self._lab()
        if lab is None:
            return None
        found, why = gpus_of(lab)
        if why:
            self.notes.append(f"{when}, {why}")
        return found

    def _save(self, suite: SuiteRun, path: Path) -> None:
        """Save the run for ``kailab report``; the page is written even if this fails."""
        try:
            suite.save(path)
        except OSError as error:
            self.notes.append(f"'kailab report' will not show this run: {path} cannot be written: {error.strerror}")
