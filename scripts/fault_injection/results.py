"""The result of each trial of a suite with a fault, the record of all trials, and their table."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

CAUGHT, MISSED, BROKEN, IDLE = "caught", "missed", "broken", "n/a"
GREEN = "green"
"""A suite that passes without a fault."""

CONTROL = "(none)"
"""The fault id of a trial without a fault."""

TESTS_FAILED = 1
"""pytest's exit code when tests failed; any other code but 0 means that they could not run."""


@dataclass(frozen=True)
class Trial:
    """One run of a suite, or a part of it, with one fault or none."""

    fault: str
    suite: str
    tests: str
    verdict: str
    seconds: float
    evidence: str = ""
    """The first failed test, or why there is no verdict."""

    @property
    def key(self) -> str:
        """Identifies the same trial in another run."""
        return f"{self.fault} · {self.suite} · {self.tests}"


@dataclass(frozen=True)
class Ran:
    """The result of a run, from pytest's JUnit file."""

    tests: int
    skipped: int
    failed: tuple[str, ...]
    """Names of the tests with a failure or an error, in order."""
    reason: str = ""
    """The reason of the first skip."""

    @classmethod
    def of(cls, junit: Path) -> Ran:
        """Read the file; a missing or incomplete file counts as a run without tests."""
        try:
            cases = list(ET.parse(junit).getroot().iter("testcase"))  # noqa: S314 - pytest wrote it a moment ago
        except (OSError, ET.ParseError):
            return cls(0, 0, ())
        bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
        skips = [skip for case in cases if (skip := case.find("skipped")) is not None]
        names = tuple(dict.fromkeys(str(case.get("name")) for case in bad))
        return cls(len(cases), len(skips), names, str(skips[0].get("message", "")) if skips else "")


def verdict(code: int, ran: Ran, *, seeded: bool) -> tuple[str, str]:
    """The verdict on a run, and its evidence.

    Args:
        code: pytest's exit code.
        ran: the content of its JUnit file.
        seeded: a fault was injected, so a failure is wanted.
    """
    if ran.tests and ran.tests == ran.skipped:
        return IDLE, ran.reason
    if code == TESTS_FAILED and ran.failed:
        return (CAUGHT if seeded else BROKEN), ran.failed[0]
    if code == 0 and ran.tests:
        return (MISSED if seeded else GREEN), ""
    return BROKEN, f"pytest ended with {code}, {ran.tests} tests ran"


class Record:
    """The trials of one lab in a JSON file, with which an interrupted run continues.

    Args:
        path: the file.
        about: the lab and KAI version of the trials; a record of others is discarded.
        fresh: discard an existing record.
    """

    def __init__(self, path: Path, about: dict[str, str], *, fresh: bool = False) -> None:
        self.path = path
        self.about = about
        self.trials: dict[str, Trial] = {}
        if not fresh and path.exists():
            data = json.loads(path.read_text())
            if data.get("about") == about:
                self.trials = {trial.key: trial for trial in (Trial(**row) for row in data["trials"])}

    def find(self, fault: str, suite: str, tests: str) -> Trial | None:
        """The trial with a verdict other than broken, or None."""
        known = self.trials.get(Trial(fault, suite, tests, "", 0.0).key)
        return None if known is None or known.verdict == BROKEN else known

    def add(self, trial: Trial) -> None:
        """Add a trial and write the file."""
        self.trials[trial.key] = trial
        self.path.parent.mkdir(parents=True, exist_ok=True)
        rows = [asdict(trial) for trial in self.trials.values()]
        self.path.write_text(json.dumps({"about": self.about, "trials": rows}, indent=1) + "\n")


def bad(trials: Iterable[Trial]) -> list[Trial]:
    """The trials that show a defect of a suite."""
    return [trial for trial in trials if trial.verdict in (MISSED, BROKEN)]


def show(trials: Iterable[Trial]) -> None:
    """Print the table, with the defects last."""
    from rich.console import Console
    from rich.table import Table

    colours = {CAUGHT: "green", GREEN: "green", MISSED: "bold red", BROKEN: "red", IDLE: "yellow"}
    order = [IDLE, GREEN, CAUGHT, BROKEN, MISSED]
    rows = sorted(trials, key=lambda trial: order.index(trial.verdict))
    table = Table("fault", "suite", "tests", "verdict", "s", "evidence")
    for row in rows:
        colour = colours[row.verdict]
        words = f"[{colour}]{row.verdict}[/]"
        table.add_row(row.fault, row.suite, row.tests or "all", words, f"{row.seconds:.0f}", row.evidence)
    console = Console(width=None if Console().is_terminal else 160)
    console.print(table)
    counts = {word: sum(row.verdict == word for row in rows) for word in order}
    console.print(", ".join(f"{count} {word}" for word, count in counts.items() if count))
