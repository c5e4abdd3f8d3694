"""Timing charts of steps and tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.report.suite_run import CaseRun
from lab.report.timing_chart import TimingChart, step_chart, suite_chart
from lab.session.run_history import last_record


def step(name: str, seconds: float, began: float | None = None, outcome: str = "changed") -> dict[str, Any]:
    found = {"step": name, "outcome": outcome, "seconds": seconds, "detail": ""}
    return found if began is None else {**found, "began": began}


def test_steps_are_drawn_from_their_start() -> None:
    chart = step_chart({"seconds": 50, "steps": [step("kai", 20, 30), step("cluster", 25, 5), step("host", 5, 0)]})
    assert [lane.title for lane in chart.lanes] == ["host", "cluster", "kai"]
    assert [(lane.bars[0].left, lane.bars[0].width) for lane in chart.lanes] == [(0, 10), (10, 50), (60, 40)]


def test_records_without_start_times_show_durations() -> None:
    chart = step_chart({"seconds": 50, "steps": [step("host", 5), step("cluster", 25)]})
    assert [(lane.title, lane.bars[0].left, lane.bars[0].width) for lane in chart.lanes] == [
        ("cluster", 0, 50),
        ("host", 0, 10),
    ]


def test_short_bars_are_visible_and_within_the_chart() -> None:
    chart = step_chart({"seconds": 100, "steps": [step("a", 0.001, 0), step("b", 0.001, 100)]})
    for lane in chart.lanes:
        (bar,) = lane.bars
        assert bar.width >= 0.4
        assert bar.left + bar.width <= 100


def test_blocked_steps_are_left_out() -> None:
    assert step_chart({"steps": [step("a", 0, 0, "blocked")]}).lanes == ()


def test_tests_have_a_lane_for_each_worker() -> None:
    cases = [
        CaseRun("a", "passed", 100, 1, 3, 1, "gw0"),
        CaseRun("b", "failed", 105, 0, 5, 0, "gw0"),
        CaseRun("c", "passed", 100, 0, 10, 0, "gw1"),
    ]
    chart = suite_chart(cases)
    assert chart.seconds == 10
    assert [(lane.title, lane.words, [bar.title for bar in lane.bars]) for lane in chart.lanes] == [
        ("gw0", "2 tests", ["a: passed, 5.0 s", "b: failed, 5.0 s"]),
        ("gw1", "1 test", ["c: passed, 10.0 s"]),
    ]
    assert [(bar.left, bar.width, bar.state) for bar in chart.lanes[0].bars] == [(0, 50, "passed"), (50, 50, "failed")]
    assert suite_chart([CaseRun("a")]).lanes[0].title == "main"
    assert suite_chart([]) == TimingChart(0, ())


@pytest.mark.parametrize("seconds", [0.3, 1, 7, 52.3, 78, 600, 5000, 40_000, 500_000])
def test_axis_has_a_few_marks_within_the_chart(seconds: float) -> None:
    ticks = TimingChart(seconds, ()).ticks
    assert 2 <= len(ticks) <= 9
    assert ticks[0] == (0, "0 s")
    assert all(0 <= at <= 100 for at, _ in ticks)


def test_chart_without_time_has_no_axis() -> None:
    assert TimingChart(0, ()).ticks == ()


def test_axis_labels_have_units() -> None:
    assert [words for _, words in TimingChart(52, ()).ticks] == ["0 s", "10 s", "20 s", "30 s", "40 s", "50 s"]
    assert TimingChart(600, ()).ticks[1][1] == "2 min"
    assert TimingChart(40_000, ()).ticks[1][1] == "2 h"


def test_last_record_is_the_latest_run_with_changes(tmp_path: Path) -> None:
    def save(name: str, outcome: str) -> None:
        data = {"verb": "up", "seconds": 1, "steps": [step(name, 1, outcome=outcome)]}
        (tmp_path / f"{name}-up.json").write_text(json.dumps(data))

    assert last_record(tmp_path) is None
    save("20261121T100000", "unchanged")
    found = last_record(tmp_path)
    assert found is not None
    save("20261121T090000", "changed")
    (tmp_path / "20261121T110000-up.json").write_text("{")
    (tmp_path / "20261121T120000-up.json").write_text("[]")
    (tmp_path / "20261121T130000-down.json").write_text("{}")
    found = last_record(tmp_path)
    assert found is not None
    assert found["steps"][0]["step"] == "20261121T090000"
