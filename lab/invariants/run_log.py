"""Files shared by the processes of one test run: violations, waivers, and the tests that failed for violations.

One process watches, several run tests. Each file has lines of JSON, and is only appended to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from lab.invariants.known_defects import with_consequences
from lab.invariants.model import Violation
from lab.serialization import to_json

RECOVERY = timedelta(seconds=20)
"""How long after a disturbing test new breaches still count as its own: pods return one after the other."""

_TEST = re.compile(r"\bt-[a-z0-9-]+-[0-9a-f]{6}\b")
"""Namespaces of tests, as ``WorkloadNamespace.open`` names them."""


@dataclass(frozen=True)
class Waiver:
    """A test's declaration that it causes violations on purpose."""

    test: str
    reason: str
    begin: datetime
    end: datetime | None = None
    """None while it runs."""
    invariants: tuple[str, ...] = ()
    """Empty for all."""
    spaces: tuple[str, ...] | None = None
    """Only violations that name one of these namespaces, or no test's namespace; None: everything in the lab."""

    def covers(self, violation: Violation) -> bool:
        """Whether the violation began during the test or the recovery after it.

        Other tests run during the recovery: a violation that names a test's namespace is theirs.
        """
        if violation.since < self.begin or (self.invariants and violation.rule not in self.invariants):
            return False
        if self.end is not None and violation.since > self.end:
            return violation.since <= self.end + RECOVERY and not names_a_test(violation)
        if self.spaces is None:
            return True
        text = text_of(violation)
        return any(space in text for space in self.spaces) or not names_a_test(violation)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Waiver:
        times = {key: datetime.fromisoformat(data[key]) for key in ("begin", "end") if data[key]}
        spaces = None if data["spaces"] is None else tuple(data["spaces"])
        return cls(**{**data, **times, "invariants": tuple(data["invariants"]), "spaces": spaces})


class ViolationLog:
    """The files of one test run in an existing folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, violation: Violation) -> None:
        self._append("violations", violation)

    def waive(self, waiver: Waiver) -> None:
        """Record a waiver, and once more when its test has ended."""
        self._append("waivers", waiver)

    def claim(self, violations: Iterable[Violation], test: str) -> None:
        """Record that a test has failed for these violations."""
        for violation in violations:
            self._append("claims", {"violation": _id(violation), "test": test})

    def violations(self) -> list[Violation]:
        """All violations without a waiver, a test that failed for them, or a proven known defect of KAI."""
        claimed = {tuple(row["violation"]) for row in self._rows("claims")}
        waivers = self._waivers()
        return [
            violation
            for violation in self._violations()
            if not (
                violation.defect or _id(violation) in claimed or any(waiver.covers(violation) for waiver in waivers)
            )
        ]

    def by_defects(self) -> list[Violation]:
        """The violations that a known defect of KAI provably caused."""
        return [violation for violation in self._violations() if violation.defect]

    def waived(self) -> list[tuple[Violation, Waiver]]:
        """The violations with a waiver."""
        waivers = self._waivers()
        first = ((v, next((waiver for waiver in waivers if waiver.covers(v)), None)) for v in self._violations())
        return [(violation, waiver) for violation, waiver in first if waiver is not None]

    def _waivers(self) -> list[Waiver]:
        latest = {(row["test"], row["begin"]): row for row in self._rows("waivers")}
        return [Waiver.from_json(row) for row in latest.values()]

    def _violations(self) -> list[Violation]:
        return with_consequences(Violation.from_json(row) for row in self._rows("violations"))

    def _append(self, name: str, row: object) -> None:
        with (self.folder / f"{name}.jsonl").open("a") as file:
            file.write(json.dumps(to_json(row)) + "\n")

    def _rows(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / f"{name}.jsonl"
        text = path.read_text() if path.exists() else ""
        # Text after the last line break is still being written.
        return [json.loads(line) for line in text.split("\n")[:-1]]


def names_a_test(violation: Violation) -> bool:
    """Whether a violation names the namespace of some test."""
    return _TEST.search(text_of(violation)) is not None


def text_of(violation: Violation) -> str:
    """A violation in words."""
    return "\n".join(violation.lines())


def _id(violation: Violation) -> tuple[str, ...]:
    return violation.side, violation.rule, violation.subject, violation.since.isoformat()
