"""The live board on rich consoles of several sizes."""

from __future__ import annotations

import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from lab.engine.events import Bus, Notice, RunFinished, RunStarted, StepFinished, StepProgress, StepStarted
from lab.ui import attach
from lab.ui.board import Board
from tests.support.fakes import FakeClock

STEPS = (
    ("host", "This machine"),
    ("node-image", "Node image with a title that goes on and on and on"),
    ("cluster", "Kubernetes cluster"),
    ("kai", "KAI Scheduler 0.16.8"),
    ("t1", "vCluster my-vcluster"),
)


class Screen:
    """A board on a terminal of a given size, and its visible text."""

    def __init__(self, clock: FakeClock, width: int, height: int = 24, encoding: str = "utf-8") -> None:
        self.raw = io.BytesIO()
        file = io.TextIOWrapper(self.raw, encoding=encoding, write_through=True)
        self.console = Console(
            file=file,
            force_terminal=True,
            width=width,
            height=height,
            color_system=None,
            legacy_windows=False,
            _environ={"TERM": "xterm"},
        )
        self.clock = clock
        self.board = Board(file, console=self.console, clock=clock)

    def region(self) -> list[str]:
        """The live region as it would be drawn now."""
        lines = self.console.render_lines(self.board, pad=False)
        return ["".join(segment.text for segment in line if not segment.control) for line in lines]

    @property
    def written(self) -> str:
        """Everything written so far, without control sequences."""
        text = self.raw.getvalue().decode(self.console.encoding)
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", text)


def started(clock: FakeClock, width: int = 80, height: int = 24, encoding: str = "utf-8") -> Screen:
    screen = Screen(clock, width, height, encoding)
    screen.board(RunStarted("demo", "up", STEPS, 60.0))
    screen.board(StepFinished("host", "unchanged", 0.1, "docker 28.1"))
    screen.board(StepStarted("node-image", at=0.0))
    clock.advance(12)
    screen.board(StepProgress("node-image", "ghcr.io/kai-scheduler/kai-scheduler/binder:v0.16.8", 7, 20, at=12.0))
    return screen


@pytest.mark.parametrize("width", [40, 60, 80, 160])
def test_every_line_fits_the_terminal(clock: FakeClock, width: int) -> None:
    screen = started(clock, width)
    lines = screen.region()
    screen.board.close()
    assert max(cell_len(line) for line in lines) <= width
    assert len(lines) == len(STEPS) + 2


def test_board_at_80_columns_truncates_titles(clock: FakeClock) -> None:
    screen = started(clock)
    lines = [line.rstrip() for line in screen.region()]
    screen.board.close()
    assert lines == [
        " = This machine                unchanged: docker 28.1                      0.1 s",
        " ⠋ Node image with a title t…  ghcr.…er:v0.16.8 ━━━━────────    7/20        12 s",
        " · Kubernetes cluster",
        " · KAI Scheduler 0.16.8",
        " · vCluster my-vcluster",
        "",
        " kailab up demo · 1 of 5 steps · 12 s · about 48 s left",
    ]


def test_board_at_160_columns_truncates_nothing(clock: FakeClock) -> None:
    screen = started(clock, 160)
    text = "\n".join(screen.region())
    screen.board.close()
    assert "…" not in text
    assert "binder:v0.16.8" in text
    assert STEPS[1][1] in text


def test_ascii_terminal_gets_ascii_only(clock: FakeClock) -> None:
    screen = started(clock, encoding="ascii")
    text = "\n".join(screen.region())
    screen.board.close()
    assert text.isascii()
    assert "####........" in text
    assert screen.raw.getvalue().isascii()


def test_running_steps_spin(clock: FakeClock) -> None:
    screen = started(clock)
    first = screen.region()[1][:3]
    clock.advance(0.1)
    second = screen.region()[1][:3]
    screen.board.close()
    assert first != second


def test_footer_reports_an_exceeded_estimate(clock: FakeClock) -> None:
    screen = started(clock)
    clock.advance(100)
    footer = screen.region()[-1]
    screen.board.close()
    assert "longer than usual (1 min 00 s)" in footer


def test_region_fits_a_small_terminal_and_shows_running_steps(clock: FakeClock) -> None:
    screen = Screen(clock, 80, 12)
    names = tuple((f"s{n}", f"Step {n}") for n in range(40))
    screen.board(RunStarted("demo", "up", names))
    for n in range(10):
        screen.board(StepFinished(f"s{n}", "changed", 1.0))
    screen.board(StepStarted("s30"))
    lines = screen.region()
    assert len(lines) < 12
    assert any("Step 30" in line for line in lines)
    assert any("and 22 more" in line for line in lines)
    above = screen.written
    for n in range(10):
        assert f"✓ Step {n} " in above  # finished steps are printed as plain lines
    screen.board.close()


def test_terminal_of_three_lines_is_supported(clock: FakeClock) -> None:
    screen = started(clock, 30, 3)
    assert screen.region()
    screen.board(RunFinished(True, 1.0, 1))


def test_final_output_is_plain_lines_in_plan_order(clock: FakeClock) -> None:
    screen = started(clock, 100)
    screen.board(StepFinished("node-image", "changed", 12.0, at=12.0))
    screen.board(StepFinished("cluster", "failed", 3.0, "no space left on device"))
    screen.board(StepFinished("kai", "blocked", 0.0, "a step it needs failed"))
    screen.raw.truncate(0)
    screen.board(RunFinished(False, 15.0, 1))
    lines = [line.rstrip() for line in screen.written.splitlines() if line.strip()]
    last = lines[-5:]
    assert [line.split()[:2] for line in last[:4]] == [["=", "This"], ["✓", "Node"], ["✗", "Kubernetes"], ["-", "KAI"]]
    assert "failed: no space left on device" in last[2]
    assert last[4].startswith("kailab up demo: failed after 15.0 s")


def test_interrupted_board_restores_the_terminal(clock: FakeClock) -> None:
    screen = started(clock)
    screen.board.close()
    screen.board.close()
    raw = screen.raw.getvalue().decode()
    assert raw.count("\x1b[?25l") == raw.count("\x1b[?25h") == 1  # cursor hidden, cursor shown
    assert "• Node image" in screen.written  # a running step no longer spins


def test_notices_are_printed_above_the_board(clock: FakeClock) -> None:
    screen = started(clock)
    screen.board(Notice("warning", "NO KAI [bold]here[/bold] :smile: \x1b[31m"))
    screen.board.close()
    assert "warning: NO KAI [bold]here[/bold] :smile:" in screen.written


def test_notice_is_printed_without_a_run(clock: FakeClock) -> None:
    screen = Screen(clock, 80)
    screen.board(Notice("info", "bundle found"))
    assert screen.written == "info: bundle found\n"


def test_second_run_replaces_the_first(clock: FakeClock) -> None:
    screen = started(clock)
    screen.board(RunFinished(True, 12.0, 1))
    screen.board(RunStarted("demo", "down", (("kai", "KAI Scheduler"),)))
    text = "\n".join(screen.region())
    screen.board(RunFinished(True, 1.0, 1))
    assert "KAI Scheduler" in text
    assert "Node image" not in text


@pytest.mark.parametrize("no_color", [True, False])
def test_no_color_is_respected(clock: FakeClock, no_color: bool) -> None:
    file = io.StringIO()
    env = {"TERM": "xterm-256color", **({"NO_COLOR": "1"} if no_color else {})}
    console = Console(file=file, force_terminal=True, width=80, _environ=env)
    board = Board(file, console=console, clock=clock)
    board(RunStarted("demo", "up", STEPS))
    board(StepFinished("host", "failed", 1.0, "no"))
    board(RunFinished(False, 1.0, 0))
    colours = re.findall(r"\x1b\[[0-9;]*\b3[1-7]m", file.getvalue())
    assert bool(colours) is not no_color


def test_wide_characters_keep_the_columns(clock: FakeClock) -> None:
    screen = Screen(clock, 60)
    screen.board(RunStarted("demo", "up", (("a", "漢字漢字漢字漢字漢字漢字漢字漢字"), ("b", "plain"))))
    screen.board(StepFinished("a", "failed", 1.0, "漢字" * 40))
    screen.board(StepFinished("b", "changed", 1.0))
    lines = [cell_len(line) for line in screen.region()[:2]]
    screen.board.close()
    assert lines == [60, 60]


def test_board_is_attached_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    bus = Bus()
    with attach(bus, "board") as face:
        bus.emit(RunStarted("demo", "up", STEPS))
        bus.emit(RunFinished(True, 1.0, 0))
    assert isinstance(face, Board)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "kailab up demo: nothing to do" in captured.err
