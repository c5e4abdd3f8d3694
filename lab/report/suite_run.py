"""What is kept of a run of the suites: tests with outcome, times and artifacts, and the GPUs before and after.

Plain frozen data, made from pytest's reports without importing pytest, and kept as JSON for ``lab report``.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lab.files import write_atomic
from lab.gpu.map.model import GpuMap
from lab.paths import LabPaths
from lab.report.scrub import scrub

if TYPE_CHECKING:
    from pydantic import TypeAdapter

ARTIFACTS = "kailab.artifacts"
"""Property of a test: the folder with its artifacts."""

OUTCOMES = ("failed", "error", "passed", "skipped", "xfailed", "xpassed")
BAD = ("failed", "error")

_LONGEST = 20_000
"""Characters kept of what a test says; its end, where the cause stands."""


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
    """The process of pytest-xdist that ran it; empty without."""
    why: str = ""
    """In one line: why it failed or was skipped."""
    text: str = ""
    """What pytest says about a failure."""
    artifacts: str = ""
    """Folder with objects, events and logs."""

    @property
    def seconds(self) -> float:
        """From the start of its setup to the end of its teardown, as far as pytest timed it."""
        return self.setup + self.call + self.teardown

    @property
    def bad(self) -> bool:
        """Whether it failed."""
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
    """What is missing in this record, and why."""

    def count(self, outcome: str) -> int:
        return sum(test.outcome == outcome for test in self.tests)

    @property
    def ok(self) -> bool:
        """Whether tests ran and none failed."""
        return self.status == 0 and not any(test.bad for test in self.tests)

    def save(self, path: Path) -> None:
        """Write it as JSON, whole or not at all. Raises OSError."""
        write_atomic(path, _adapter().dump_json(self, indent=1))

    @classmethod
    def load(cls, path: Path) -> SuiteRun | None:
        """Read what ``save`` wrote; None where there is nothing, or nothing that this version can read."""
        try:
            return _adapter().validate_json(path.read_bytes())
        except (OSError, ValueError):
            return None


def suite_file(paths: LabPaths) -> Path:
    """Where the last run of the suites against a lab is kept; it goes with the lab."""
    return paths.root / "suite.json"


class PytestReport(Protocol):
    """What is read of a report of pytest about one phase of one test."""

    @property
    def nodeid(self) -> str:
        """The test."""
        ...

    @property
    def when(self) -> str | None:
        """Setup, call or teardown."""
        ...

    @property
    def outcome(self) -> str:
        """Passed, failed or skipped."""
        ...

    @property
    def duration(self) -> float:
        """Seconds."""
        ...


class Collector:
    """Puts pytest's reports together, whichever process they come from and in whatever order."""

    def __init__(self) -> None:
        self._tests: dict[str, CaseRun] = {}
        self.began = time.time()

    def add(self, report: PytestReport) -> None:
        name = without_group(report.nodeid)
        test = self._tests.get(name) or CaseRun(
            name, worker=str(getattr(report, "worker_id", "")), began=_start(report)
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
        """Take in a whole case: something that failed before there was a test."""
        self._tests[case.id] = replace(case, began=case.began or time.time())

    @property
    def tests(self) -> tuple[CaseRun, ...]:
        """All tests, in the order they began."""
        return tuple(sorted(self._tests.values(), key=lambda test: test.began))

    def run(self, lab: str, **more: Any) -> SuiteRun:
        """The run as it is now; further fields as in SuiteRun."""
        began = datetime.fromtimestamp(self.began, UTC).isoformat(timespec="seconds")
        return SuiteRun(lab=lab, began=began, seconds=time.time() - self.began, tests=self.tests, **more)


def _judged(test: CaseRun, report: PytestReport) -> CaseRun:
    """The test with what this phase says about its outcome; a failure stays one."""
    expected = getattr(report, "wasxfail", None)
    if expected is not None:
        outcome = "xpassed" if report.outcome == "passed" else "xfailed"
        return replace(test, outcome=outcome, why=scrub(str(expected)))
    if report.outcome == "passed":
        return test
    if report.outcome == "skipped":
        return replace(test, outcome="skipped", why=scrub(_skip_reason(report)))
    outcome = "failed" if report.when == "call" else "error"
    said = scrub(str(getattr(report, "longreprtext", "")))
    # What failed first explains what failed after it.
    if test.bad:
        return replace(test, text=f"{test.text}\n\n{report.when}:\n{said}"[-_LONGEST:])
    return replace(test, outcome=outcome, why=_first_error(said), text=said[-_LONGEST:])


def _skip_reason(report: PytestReport) -> str:
    where = getattr(report, "longrepr", None)
    text = str(where[2]) if isinstance(where, tuple) and len(where) == 3 else str(where or "")
    return text.removeprefix("Skipped: ")


def _first_error(text: str) -> str:
    """The line of a traceback that says what was wrong: the first marked E, else the last one."""
    lines = [line for line in text.splitlines() if line.strip()]
    marked = next((line[1:].strip() for line in lines if line.startswith("E ") and line[1:].strip()), "")
    return marked or (lines[0].strip() if lines else "")


def _start(report: PytestReport) -> float:
    return float(getattr(report, "start", 0.0)) or time.time() - report.duration


@functools.cache
def _adapter() -> TypeAdapter[SuiteRun]:
    from pydantic import TypeAdapter

    return TypeAdapter(SuiteRun)


def without_group(nodeid: str) -> str:
    """A test's id without the group that pytest-xdist writes behind it."""
    return nodeid.rpartition("@")[0] if nodeid.rfind("@") > max(nodeid.rfind("]"), nodeid.rfind("::")) else nodeid
