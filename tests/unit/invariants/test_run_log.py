"""Attribution of violations to tests, and the violation log that processes of a test run share."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.config import LabSpec
from lab.invariants import Violation
from lab.invariants.run_log import RECOVERY, ViolationLog, Waiver
from lab.pytest_plugin import invariants
from lab.serialization import to_json


def item(*, worker: bool, fixtures: tuple[str, ...] = (), namespaces: tuple[str, ...] = ()) -> Any:
    config = SimpleNamespace(workerinput={}) if worker else SimpleNamespace()
    config.stash = {invariants.ATTACHED: SimpleNamespace(spec=LabSpec())}
    stash = pytest.Stash()
    stash[invariants.NAMESPACES] = [SimpleNamespace(namespace=name) for name in namespaces]  # type: ignore[misc]
    return SimpleNamespace(config=config, fixturenames=fixtures, stash=stash)


def violation(what: str, since: datetime, evidence: tuple[str, ...] = ()) -> Violation:
    return Violation(what, evidence=evidence, rule="reserved", subject="k", since=since, reported=since)


@pytest.mark.parametrize(
    ("what", "test", "own"),
    [
        ("pod t-a-b-0a1b2c/x", item(worker=True, namespaces=("t-a-b-0a1b2c",)), True),
        ("pod t-a-b-0a1b2c/x", item(worker=True, namespaces=("t-c-d-0a1b2c",)), False),
        ("pod t-a-b-0a1b2c/x", item(worker=True, fixtures=("gpu_lock",)), False),
        ("GPU group g", item(worker=True, fixtures=("gpu_lock",)), True),
        ("GPU group g", item(worker=True), False),
        ("GPU group g", item(worker=False), True),
    ],
)
def test_violation_belongs_to_the_test_that_may_cause_it(what: str, test: Any, own: bool) -> None:
    now = datetime.now(UTC)
    assert invariants._is_of(test, violation(what, now)) is own


def test_workers_share_violations_in_the_folder_of_the_run(tmp_path: Path) -> None:
    watching, running = ViolationLog(tmp_path), ViolationLog(tmp_path)
    now = datetime.now(UTC)
    found = violation("w", now, evidence=("é",))
    assert running.violations() == []
    watching.add(found)
    assert running.violations() == [found]
    (tmp_path / "violations.jsonl").open("a").write('{"half')
    assert running.violations() == [found]
    running.claim([found], "test")
    assert watching.violations() == []


def test_waiver_covers_the_test_and_the_recovery_time() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    waiver = Waiver("t", "r", start, start + timedelta(seconds=10))

    def at(seconds: float, what: str = "GPU group g") -> bool:
        since = start + timedelta(seconds=seconds)
        return waiver.covers(violation(what, since))

    last = 10 + RECOVERY.total_seconds()
    assert [at(second) for second in (-1, 0, 9, last, last + 1)] == [False, True, True, True, False]
    assert [at(second, "pod t-a-0a1b2c/x") for second in (9, last)] == [True, False]
    narrow = replace(waiver, spaces=("t-b-0a1b2c",), invariants=("reserved",))
    for expected in (waiver, narrow, replace(narrow, end=None)):
        assert Waiver.from_json(to_json(expected)) == expected
    waiver = narrow
    assert [at(9, what) for what in ("t-b-0a1b2c", "t-a-0a1b2c", "GPU group g")] == [True, False, True]
