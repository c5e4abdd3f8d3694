"""``kailab gpus --watch``: change lines in a pipe, a live table on a terminal."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from rich.console import Console

from lab.gpu.map.model import GpuMap
from lab.ui.gpu_watch import draw_live, watch_gpus, write_changes
from tests.support.gpu_map_world import GpuCluster, pod


class Stop(Exception):
    """The end of a scripted watch."""


class Maps:
    """Scripted maps; None is an interval without changes."""

    def __init__(self, maps: Sequence[GpuMap | None]) -> None:
        self.maps = list(maps)
        self.trouble = ""
        self.at: dict[int, str] = {}

    def next(self, seconds: float) -> GpuMap | None:
        if not self.maps:
            raise Stop
        self.trouble = self.at.get(len(self.maps), self.trouble)
        return self.maps.pop(0)


def now() -> datetime:
    return datetime(2026, 11, 21, 12, 30, 5)  # noqa: DTZ001 - local time


@pytest.fixture
def maps() -> Maps:
    made = GpuCluster()
    machine = made.machine("worker", 2)
    first = made.map()
    made.pods = [pod("p", gpus=1, phase="Pending", why="no room")]
    second = made.map()
    made.pods = []
    made.whole(machine, [0], pod("p", gpus=1))
    return Maps([first, None, second, made.map()])


def test_pipe_gets_a_line_for_each_change(maps: Maps) -> None:
    out = io.StringIO()
    with pytest.raises(Stop):
        write_changes(maps, out, now=now)
    name = "GPU 0 of worker (GPU-"
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("12:30:05 2 GPUs on 1 node: 2 free")
    assert lines[1:3] == ["12:30:05 node worker offers 2 of 2 GPUs", "12:30:05 pod default/p waits for 1 GPU: no room"]
    assert lines[3].startswith(f"12:30:05 pod default/p runs on {name}")
    assert len(lines) == 4


def test_json_lines_report_each_change(maps: Maps, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    with pytest.raises(Stop):
        watch_gpus(maps, "lab demo", as_json=True)
    data: list[dict[str, Any]] = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["change"] for line in data] == ["start", "node", "waits", "runs"]
    assert (data[0]["gpus"], data[3]["about"]) == (2, "default/p")
    assert all(line["at"].startswith("2026-11-21T10:00:00") for line in data)
    assert {line["schemaVersion"] for line in data} == {1}


def test_watch_failure_is_reported_once(maps: Maps) -> None:
    maps.maps = [maps.maps[0], None, None, maps.maps[0]]
    maps.at = {3: "the API server does not answer", 1: ""}
    out = io.StringIO()
    with pytest.raises(Stop):
        write_changes(maps, out, now=now)
    assert out.getvalue().count("watch failed: the API server does not answer") == 1


def terminal(height: int = 30) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    made = Console(
        file=out, width=80, height=height, force_terminal=True, color_system=None, highlight=False, markup=False
    )
    return made, out


def test_terminal_shows_the_table_and_the_last_changes(maps: Maps) -> None:
    console, out = terminal()
    with pytest.raises(Stop):
        draw_live(maps, "lab demo", console, now)
    shown = out.getvalue()
    assert "waiting for lab demo" in shown
    last = shown.rsplit("GPUs of lab demo", 1)[1]
    assert "[aaaaaaaaaaaa] ● whole" in last
    assert "12:30:05 pod default/p waits for 1 GPU: no room" in last
    assert "12:30:05 pod default/p runs on GPU 0 of worker" in last
    # Drawn on changes only, and once more at the end so that the table remains.
    assert shown.count("GPUs of lab demo") == 4
    assert shown.endswith("\x1b[?25h")  # the cursor is restored


def test_terminal_reports_a_failed_watch(maps: Maps) -> None:
    maps.maps = [maps.maps[0], None]
    maps.at = {1: "the API server does not answer"}
    console, out = terminal()
    with pytest.raises(Stop):
        draw_live(maps, "lab demo", console, now)
    assert "watch failed: the API server does not answer" in out.getvalue().rsplit("GPUs of lab demo", 1)[1]


def test_display_depends_on_the_stream(maps: Maps) -> None:
    console, out = terminal()
    with pytest.raises(Stop):
        watch_gpus(Maps(maps.maps[:1]), "lab demo", console=console)
    assert "\x1b[?25l" in out.getvalue()
    plain = Console(file=io.StringIO(), force_terminal=False)
    with pytest.raises(Stop):
        watch_gpus(Maps(maps.maps[:1]), "lab demo", console=plain)
    assert "\x1b" not in plain.file.getvalue()  # type: ignore[attr-defined]
