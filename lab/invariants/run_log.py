"""What the processes of one test run tell each other: violations, tests that expected them, whose they were.

One process watches, several run tests. Each file has lines of JSON and is only ever appended to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from lab.invariants.model import Violation

RECOVERY = timedelta(seconds=20)
"""How long after a test that disturbs what begins to be wrong is still put down to it: pods come back in turns."""

_TEST = re.compile(r"\bt-[a-z0-9-]+-[0-9a-f]{6}\b")
"""Namespaces of tests, as ``Place.open`` names them."""


@dataclass(frozen=True)
class Waiver:
    """A test that breaks things on purpose."""

    test: str
    reason: str
    begin: datetime
    end: datetime | None = None
    """None while it runs."""
    invariants: tuple[str, ...] = ()
    """Which ones; all when empty."""
    spaces: tuple[str, ...] | None = None
    """Only what names one of these namespaces, or no test's at all; None: everything in the lab."""

    def covers(self, violation: Violation) -> bool:
        """Whether the violation is what the test was about: it began during the test, or in its aftermath.

        In the aftermath others run already: what names the namespace of a test is theirs.
        """
        if violation.since < self.begin or (self.invariants and violation.rule not in self.invariants):
            return False
        if self.end is not None and violation.since > self.end:
            return violation.since <= self.end + RECOVERY and not names_a_test(violation)
        if self.spaces is None:
            return True
        text = text_of(violation)
        return any(space in text for space in self.spaces) or not names_a_test(violation)

    def as_json(self) -> dict[str, Any]:
        end = self.end.isoformat() if self.end else None
        return {**asdict(self), "begin": self.begin.isoformat(), "end": end}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Waiver:
        return cls(
            test=data["test"],
            reason=data["reason"],
            begin=datetime.fromisoformat(data["begin"]),
            end=datetime.fromisoformat(data["end"]) if data["end"] else None,
            invariants=tuple(data["invariants"]),
            spaces=None if data["spaces"] is None else tuple(data["spaces"]),
        )


class ViolationLog:
    """The files of one test run.

    Args:
        folder: where they are; it exists.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def tell(self, violation: Violation) -> None:
        self._append("violations", violation.as_json())

    def excuse(self, excuse: Waiver) -> None:
        """Write down that a test disturbs, and once more when it has ended."""
        self._append("excuses", excuse.as_json())

    def claim(self, violations: Iterable[Violation], test: str) -> None:
        """Write down that a test has failed for these."""
        for violation in violations:
            self._append("claims", {"violation": _id(violation), "test": test})

    def violations(self) -> list[Violation]:
        """All so far that no test expected or failed for, and that no known defect of KAI is proven to have done."""
        claimed = {tuple(row["violation"]) for row in self._rows("claims")}
        excuses = self.excuses()
        return [
            violation
            for violation in map(Violation.from_json, self._rows("violations"))
            if not (
                violation.defect or _id(violation) in claimed or any(excuse.covers(violation) for excuse in excuses)
            )
        ]

    def by_defects(self) -> list[Violation]:
        """The violations that a known defect of KAI is proven to have done."""
        return [one for one in map(Violation.from_json, self._rows("violations")) if one.defect]

    def excused(self) -> list[tuple[Violation, Waiver]]:
        excuses = self.excuses()
        found = []
        for violation in map(Violation.from_json, self._rows("violations")):
            excuse = next((one for one in excuses if one.covers(violation)), None)
            if excuse is not None:
                found.append((violation, excuse))
        return found

    def excuses(self) -> list[Waiver]:
        """The last word of each test that disturbs."""
        by_begin = {(row["test"], row["begin"]): row for row in self._rows("excuses")}
        return [Waiver.from_json(row) for row in by_begin.values()]

    def _append(self, name: str, data: dict[str, Any]) -> None:
        with (self.folder / f"{name}.jsonl").open("a") as file:
            file.write(json.dumps(data) + "\n")

    def _rows(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / f"{name}.jsonl"
        text = path.read_text() if path.exists() else ""
        # What comes after the last line break is still being written.
        return [json.loads(line) for line in text.split("\n")[:-1]]


def names_a_test(violation: Violation) -> bool:
    """Whether a violation names the namespace of some test."""
    return _TEST.search(text_of(violation)) is not None


def text_of(violation: Violation) -> str:
    """All that is told of a violation."""
    return "\n".join(violation.lines())


def _id(violation: Violation) -> tuple[str, ...]:
    return violation.side, violation.rule, violation.subject, violation.since.isoformat()
