"""A fake watcher of invariants whose violations the test sets, in separate pytest runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import pytest

from lab.invariants import ALL, InvariantReport, InvariantResult, Scope, Violation
from lab.pytest_plugin import invariant_watch, invariants
from tests.support.fake_lab import FakeLab, Run, runner

CONFTEST = """
import pytest
import lab.pytest_plugin.invariants as invariants

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.addinivalue_line("markers", "disturbs(reason): for the test")
    if not config.pluginmanager.is_registered(invariants):
        config.pluginmanager.register(invariants, "kailab-invariants")

@pytest.fixture
def wrong(lab):
    return invariants.Watcher.says
"""


class FakeWatcher:
    """Reports the violations that a test sets."""

    last: FakeWatcher
    fails: Exception | None = None

    def __init__(self, scopes: Iterable[Scope], *, on_violation: Callable[[Violation], None] = lambda _: None) -> None:
        self.scopes = tuple(scopes)
        self.on_violation = on_violation
        self.found: list[Violation] = []
        self.trouble = self.fails
        self.calls: list[str] = []
        FakeWatcher.last = self

    @staticmethod
    def says(what: str, invariant: str = "reserved", ago: float = 0.0, defect: str = "") -> None:
        """Add a violation that began some seconds ago."""
        now = datetime.now(UTC)
        watcher = FakeWatcher.last
        since, evidence = now - timedelta(seconds=ago), ("pod x/y: Running",)
        violation = Violation(
            what, evidence=evidence, rule=invariant, subject=what, since=since, reported=now, defect=defect
        )
        watcher.found.append(violation)
        watcher.on_violation(violation)

    def __enter__(self) -> FakeWatcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.append("exit")

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def look(self) -> None:
        self.calls.append("look")

    def settle(self, limit: float = 0.0) -> None:
        self.calls.append(f"settle {limit:g}")

    def report(self) -> InvariantReport:
        rows = [
            InvariantResult(invariant, "", tuple(v for v in self.found if v.rule == invariant.id)) for invariant in ALL
        ]
        return InvariantReport(datetime.now(UTC), 12.0, tuple(rows))


def watched(pytester: pytest.Pytester, lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest on a text, with the fake watcher of invariants."""
    for module in (invariants, invariant_watch):
        monkeypatch.setattr(module, "Watcher", FakeWatcher)
    monkeypatch.setattr(FakeWatcher, "fails", None)
    monkeypatch.setattr(invariants, "DEFECT_SECONDS", 0)
    pytester.makeconftest(CONFTEST)
    return runner(pytester, lab, monkeypatch, watch=True)
