"""Timings as rows of bars: the steps of ``lab up``, and the tests of a run by the process that ran them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.report.suite_run import CaseRun

_LEAST = 0.4
"""Percent of the chart that a bar has at least, so that it can be seen."""


@dataclass(frozen=True)
class TimingBar:
    """One bar: ``left`` and ``width`` in percent of the chart, ``seconds`` what it stands for."""

    title: str
    seconds: float
    state: str
    left: float
    width: float


@dataclass(frozen=True)
class TimingLane:
    """A row of bars."""

    title: str
    bars: tuple[TimingBar, ...]
    note: str = ""


@dataclass(frozen=True)
class TimingChart:
    """Rows over one axis of ``seconds``."""

    seconds: float
    lanes: tuple[TimingLane, ...]

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Where the axis is marked: percent, and the time in words; four to eight marks."""
        if self.seconds <= 0:
            return ()
        step = next((s for s in _STEPS if self.seconds / s <= 8), _STEPS[-1])
        count = int(self.seconds / step)
        return tuple((100 * n * step / self.seconds, _axis(n * step)) for n in range(count + 1))


_STEPS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600, 7200, 14400, 86400)


def step_chart(record: Mapping[str, Any]) -> TimingChart:
    """The steps of a run of the engine as ``lab.session.run_history`` keeps them.

    Records without ``began`` (seconds after the start of the run) show how long each step took, from zero.
    """
    steps = [step for step in record.get("steps", []) if step.get("outcome") != "blocked"]
    spans = [(float(step.get("began") or 0.0), float(step["seconds"])) for step in steps]
    total = max([float(record.get("seconds") or 0.0), *(began + took for began, took in spans)], default=0.0)
    rows = sorted(zip(steps, spans, strict=True), key=lambda row: (row[1][0], -row[1][1]))
    lanes = [
        TimingLane(
            str(step["step"]),
            (_bar(str(step["step"]), step["outcome"], began, took, total),),
            str(step.get("detail", "")),
        )
        for step, (began, took) in rows
    ]
    return TimingChart(total, tuple(lanes))


def suite_chart(tests: Sequence[CaseRun]) -> TimingChart:
    """Tests over time, a lane for each process of pytest-xdist."""
    if not tests:
        return TimingChart(0.0, ())
    zero = min(test.began for test in tests)
    total = max(test.began + test.seconds for test in tests) - zero
    workers: dict[str, list[TimingBar]] = {}
    for test in sorted(tests, key=lambda test: test.began):
        bar = _bar(test.id, test.outcome, test.began - zero, test.seconds, total)
        workers.setdefault(test.worker, []).append(bar)
    return TimingChart(total, tuple(TimingLane(worker or "main", tuple(workers[worker])) for worker in sorted(workers)))


def last_record(folder: Path, verb: str = "up") -> Mapping[str, Any] | None:
    """The newest record of a verb that did something, else the newest one; None where there is none."""
    records = list(_records(sorted(folder.glob(f"*-{verb}.json"), reverse=True)))
    did = (record for record in records if any(step.get("outcome") == "changed" for step in record["steps"]))
    return next(did, records[0] if records else None)


def _records(paths: Iterable[Path]) -> Iterable[Mapping[str, Any]]:
    for path in paths:
        try:
            record = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if isinstance(record, dict) and isinstance(record.get("steps"), list):
            yield record


def _bar(title: str, state: str, began: float, took: float, total: float) -> TimingBar:
    scale = 100 / total if total > 0 else 0.0
    width = max(_LEAST, took * scale)
    return TimingBar(title, took, state, round(max(0.0, min(began * scale, 100 - width)), 3), round(min(width, 100), 3))


def _axis(seconds: float) -> str:
    if seconds < 60 or seconds % 60:
        return f"{seconds:g} s"
    return f"{seconds / 60:g} min" if seconds < 3600 else f"{seconds / 3600:g} h"
