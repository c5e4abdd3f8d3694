"""The record of a test run: tests with outcome, times and artifacts, and the GPUs before and after.

It is collected from pytest's reports without importing pytest, and saved as JSON for ``kailab report``.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.files import write_atomic
from lab.gpu.map.model import GpuMap
from lab.objects.redact import redact_text
from lab.paths import LabPaths

if TYPE_CHECKING:
    import pytest
    from pydantic import TypeAdapter

ARTIFACTS = "kailab.artifacts"
"""User property of a test: the folder with its artifacts."""

OUTCOMES = ("failed", "error", "passed", "skipped", "xfailed", "xpassed")
BAD = ("failed", "error")

_NO_TESTS = 5
"""pytest's exit status when no test was selected."""

_LONGEST = 20_000
"""Characters kept of a failure's text, from its end, where the cause is."""


@dataclass(frozen=True)
class CaseRun:
    """One test. ``began`` in seconds since 1970; ``setup``, ``call`` and ``teardown`` in seconds."""

    id: str
    outcome: str = "passed"
    began: float = 0.0
    setup: float = 0.0
    call: float = 0.0
    teardown: float = 0.0
    worker: str = ""
    """Worker of pytest-xdist; empty without it."""
    why: str = ""
    """Reason why it failed or was skipped, in one line."""
    text: str = ""
    """pytest's report of the failure."""
    artifacts: str = ""
    """Folder with objects, events and logs."""

    @property
    def seconds(self) -> float:
        """Total of its phases."""
        return self.setup + self.call + self.teardown

    @property
    def bad(self) -> bool:
        return self.outcome in BAD


@dataclass(frozen=True)
class SuiteRun:
    """One run of the suites. ``seconds`` of wall time; ``status`` is pytest's exit status."""

    lab: str
    began: str
    """ISO 8601 in UTC."""
    seconds: float = 0.0
    status: int = 0
    command: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    tests: tuple[CaseRun, ...] = ()
    before: GpuMap | None = None
    after: GpuMap | None = None
    notes: tuple[str, ...] = ()
    """Missing data, and the reasons."""

    def count(self, outcome: str) -> int:
        return sum(test.outcome == outcome for test in self.tests)

    @property
    def ok(self) -> bool:
        """Whether tests passed and none failed."""
        return self.verdict == "passed"

    @property
    def verdict(self) -> str:
        """``passed``, ``failed``, ``not proven`` (no test passed), or ``no test ran``."""
        if any(test.bad for test in self.tests) or self.status not in (0, _NO_TESTS):
            return "failed" if self.tests else "no test ran"
        return "passed" if self.count("passed") else "not proven" if self.tests else "no test ran"

    def save(self, path: Path) -> None:
        """Write it as JSON, atomically. Raises OSError."""
        write_atomic(path, _adapter().dump_json(self, indent=1))

    @classmethod
    def load(cls, path: Path) -> SuiteRun | None:
        """Read a saved run; None if the file is missing or this version cannot read it."""
        try:
            return _adapter().validate_json(path.read_bytes())
        except (OSError, ValueError):
            return None


def suite_file(paths: LabPaths) -> Path:
    """File of the last test run against a lab; ``kailab down`` deletes it."""
    return paths.root / "suite.json"


class Collector:
    """Combines pytest's reports, from any worker and in any order."""

    def __init__(self) -> None:
        self._tests: dict[str, CaseRun] = {}
        self.began = time.time()

    def add(self, report: pytest.TestReport) -> None:
        name = without_group(report.nodeid)
        test = self._tests.get(name) or CaseRun(
            name,
            worker=str(getattr(report, "worker_id", "")),
            began=float(getattr(report, "start", 0.0)) or time.time() - report.duration,
        )
        match report.when:
            case "setup":
                test = replace(test, setup=report.duration)
            case "call":
                test = replace(test, call=report.duration)
            case "teardown":
                test = replace(test, teardown=report.duration)
        if folder := next((str(v) for k, v in getattr(report, "user_properties", []) if k == ARTIFACTS), ""):
            test = replace(test, artifacts=folder)
        self._tests[name] = _judged(test, report)

    def put(self, case: CaseRun) -> None:
        """Add a whole case: a failure before any test, such as an error of collection."""
        self._tests[case.id] = replace(case, began=case.began or time.time())

    @property
    def tests(self) -> tuple[CaseRun, ...]:
        """All tests by start time."""
        return tuple(sorted(self._tests.values(), key=lambda test: test.began))

    def run(self, lab: str, **more: Any) -> SuiteRun:
        """The run so far; ``more`` are fields of SuiteRun."""
        began = datetime.fromtimestamp(self.began, UTC).isoformat(timespec="seconds")
        return SuiteRun(lab=lab, began=began, seconds=time.time() - self.began, tests=self.tests, **more)


def _judged(test: CaseRun, report: pytest.TestReport) -> CaseRun:
    """The test with the outcome of this phase; a failure stays one."""
    expected = getattr(report, "wasxfail", None)
    if expected is not None:
        outcome = "xpassed" if report.outcome == "passed" else "xfailed"
        return replace(test, outcome=outcome, why=redact_text(str(expected)))
    if report.outcome == "passed":
        return test
    if report.outcome == "skipped":
        return replace(test, outcome="skipped", why=redact_text(_skip_reason(report)))
    outcome = "failed" if report.when == "call" else "error"
    text = redact_text(str(getattr(report, "longreprtext", "")))
    # The first failure explains the later ones.
    if test.bad:
        return replace(test, text=f"{test.text}\n\n{report.when}:\n{text}"[-_LONGEST:])
    return replace(test, outcome=outcome, why=_first_error(text), text=text[-_LONGEST:])


def _skip_reason(report: pytest.TestReport) -> str:
    where = getattr(report, "longrepr", None)
    text = str(where[2]) if isinstance(where, tuple) and len(where) == 3 else str(where or "")
    return text.removeprefix("Skipped: ")


def _first_error(text: str) -> str:
    """The line of a traceback with the error: the first one marked E, else the first line."""
    lines = [line for line in text.splitlines() if line.strip()]
    marked = next((line[1:].strip() for line in lines if line.startswith("E ") and line[1:].strip()), "")
    return marked or (lines[0].strip() if lines else "")


@functools.cache
def _adapter() -> TypeAdapter[SuiteRun]:
    from pydantic import TypeAdapter

    return TypeAdapter(SuiteRun)


def without_group(nodeid: str) -> str:
    """A test's id without the group that pytest-xdist appends."""
    return nodeid.rpartition("@")[0] if nodeid.rfind("@") > max(nodeid.rfind("]"), nodeid.rfind("::")) else nodeid
