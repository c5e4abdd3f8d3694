"""Timings as rows of bars: the steps of ``kailab up``, and the tests of a run by worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab import text
from lab.report.suite_run import CaseRun

LEAST = 0.4
"""Smallest width of a bar, in percent of the chart, so that it is visible."""

_TICKS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600, 7200, 14400, 86400)


@dataclass(frozen=True)
class TimingBar:
    """One bar: ``left`` and ``width`` in percent of the chart, ``state`` for the style sheet."""

    state: str
    left: float
    width: float
    title: str


@dataclass(frozen=True)
class TimingLane:
    """A row of bars."""

    title: str
    bars: tuple[TimingBar, ...]
    words: str
    """Text to the right of the bars."""
    note: str = ""
    """Tooltip of the title."""
    end: float | None = None
    """End of a lane that was cut off, in percent of the chart."""
    bad: bool = False


@dataclass(frozen=True)
class TimingChart:
    """Rows over one axis of ``seconds``."""

    seconds: float
    lanes: tuple[TimingLane, ...]

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Marks of the axis: percent, and the time in words; four to eight of them."""
        if self.seconds <= 0:
            return ()
        step = next((step for step in _TICKS if self.seconds / step <= 8), _TICKS[-1])
        times = [n * step for n in range(int(self.seconds / step) + 1)]
        return tuple((100 * time / self.seconds, _axis(time)) for time in times)


def bar(state: str, began: float, took: float, total: float, title: str) -> TimingBar:
    """A bar of ``took`` seconds that begins at ``began`` on an axis of ``total`` seconds."""
    scale = 100 / total if total > 0 else 0.0
    width = max(LEAST, took * scale)
    left = max(0.0, min(began * scale, 100 - width))
    return TimingBar(state, round(left, 3), round(min(width, 100), 3), title)


def seconds(value: float) -> str:
    """A time span: ``0.12 s``, ``12.3 s``, ``2 min 05 s``."""
    return text.seconds(value, 2 if value < 1 else 1)


def step_chart(record: Mapping[str, Any]) -> TimingChart:
    """The steps of a run of the engine, as ``lab.session.run_history`` records them.

    In records without ``began`` (seconds after the start of the run) each bar begins at zero.
    """
    steps = [step for step in record.get("steps", []) if step.get("outcome") != "blocked"]
    spans = [(float(step.get("began") or 0.0), float(step["seconds"])) for step in steps]
    total = max([float(record.get("seconds") or 0.0), *(began + took for began, took in spans)], default=0.0)
    rows = sorted(zip(steps, spans, strict=True), key=lambda row: (row[1][0], -row[1][1]))
    return TimingChart(total, tuple(_step_lane(step, began, took, total) for step, (began, took) in rows))


def _step_lane(step: Mapping[str, Any], began: float, took: float, total: float) -> TimingLane:
    name, outcome = str(step["step"]), str(step["outcome"])
    title = f"{name}: {outcome}, {seconds(took)}"
    return TimingLane(name, (bar(outcome, began, took, total, title),), seconds(took), str(step.get("detail", "")))


def suite_chart(tests: Sequence[CaseRun]) -> TimingChart:
    """Tests over time, with a lane for each worker of pytest-xdist."""
    if not tests:
        return TimingChart(0.0, ())
    zero = min(test.began for test in tests)
    total = max(test.began + test.seconds for test in tests) - zero
    workers: dict[str, list[TimingBar]] = {}
    for test in sorted(tests, key=lambda test: test.began):
        title = f"{test.id}: {test.outcome}, {seconds(test.seconds)}"
        found = bar(test.outcome, test.began - zero, test.seconds, total, title)
        workers.setdefault(test.worker, []).append(found)
    lanes = (
        TimingLane(name or "main", tuple(bars), text.count(len(bars), "test")) for name, bars in sorted(workers.items())
    )
    return TimingChart(total, tuple(lanes))


def _axis(time: float) -> str:
    if time < 60 or time % 60:
        return f"{time:g} s"
    return f"{time / 60:g} min" if time < 3600 else f"{time / 3600:g} h"
