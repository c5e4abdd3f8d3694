"""The display for terminals: a live board with one line per step, in plan order.

If the steps do not fit the terminal, those that ended move above the board as plain lines, and the others that do not
fit are counted in one line. Imports rich; import this module late.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from lab.engine.events import Event, Notice, RunFinished, RunStarted, StepFinished
from lab.text import count, whole_seconds
from lab.ui.run_state import RunState, StepRow
from lab.ui.terminal import Terminal
from lab.ui.text_writer import fit

STYLES = {
    "waiting": "dim",
    "running": "cyan",
    "changed": "green",
    "unchanged": "dim",
    "failed": "bold red",
    "cancelled": "yellow",
    "blocked": "yellow",
}
_TIME = 12
"""Width of the column of times: ``1 h 02 min`` and two spaces."""
_TEXT_ROOM = 14
"""Cells that a progress bar must leave for the text."""


class Board:
    """Draws a run on a terminal; between runs, notices are plain lines.

    Tests pass a ``console`` for ``stream``, and a ``clock`` of monotonic seconds.
    """

    def __init__(
        self, stream: TextIO, *, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.console = console or Console(file=stream, highlight=False, emoji=False, markup=False)
        self.terminal = Terminal(self.console.encoding)
        self.run = RunState()
        self._clock = clock
        self._zero = clock()
        self._above: set[str] = set()
        self._live: Live | None = None

    # The bus calls one event at a time and rich's refresh thread only reads rows, so the board needs no lock
    # of its own; one would meet rich's locks in both orders.

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.close()
        self.run.feed(event)
        match event:
            case RunStarted():
                self._zero = self._clock() - event.at
                self._above = set()
                self._live = Live(
                    self, console=self.console, refresh_per_second=10, transient=True, redirect_stdout=False
                )
                self._live.start()
            case StepFinished():
                self._make_room()
            case Notice():
                self._notice(event)
            case RunFinished():
                self._end(event)

    def close(self) -> None:
        """Restore the terminal; the rows of the board stay as plain lines."""
        if self._live is None:
            return
        with contextlib.suppress(OSError):
            self._live.stop()
        self._live = None
        for row in self.run.rows.values():
            if row.id not in self._above and row.state != "waiting":
                self._print_row(row)

    def _end(self, event: RunFinished) -> None:
        self.close()
        state = "changed" if event.ok else "failed"
        self.console.print(Text(self.terminal.clean(self.run.summary(event)), f"bold {STYLES[state]}"), soft_wrap=True)

    def _notice(self, event: Notice) -> None:
        warning = event.level == "warning"
        line = Text(f"{event.level}: ", "bold yellow" if warning else "bold blue")
        self.console.print(line.append(self.terminal.clean(event.text), "yellow" if warning else ""))

    def _make_room(self) -> None:
        """Move ended steps above the board while its rows do not fit."""
        room = self.console.size.height - 4  # the footer, a blank line, one line of waiting steps, the cursor
        for row in list(self.run.rows.values()):
            kept = [r for r in self.run.rows.values() if r.id not in self._above]
            if len(kept) <= room:
                return
            if row.ended and row.id not in self._above:
                self._above.add(row.id)
                self._print_row(row)

    def _print_row(self, row: StepRow) -> None:
        self.console.print(self.line(row, self.console.width), overflow="ignore", no_wrap=True, crop=False)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The live region, never higher than the terminal."""
        width, room = options.max_width, console.size.height - 4
        rows = [row for row in self.run.rows.values() if row.id not in self._above]
        shown = rows
        if len(rows) > room:
            # Running steps first.
            order = {"running": 0, "waiting": 2}
            best = sorted(range(len(rows)), key=lambda n: (order.get(rows[n].state, 1), n))[: max(1, room)]
            shown = [rows[n] for n in sorted(best)]
        for row in shown:
            yield self.line(row, width)
        if hidden := len(rows) - len(shown):
            yield Text(f" {self.terminal.ellipsis} and {hidden} more", "dim", no_wrap=True, overflow="crop")
        yield self._footer(width)

    def line(self, row: StepRow, width: int) -> Text:
        """One step in one line of exactly ``width`` cells."""
        now = self._clock() - self._zero
        running = row.state == "running"
        style = STYLES[row.state]
        glyph = self.terminal.spinner(now) if running and self._live else self.terminal.glyph(row.state)
        took = whole_seconds(now - row.began) if running else row.took
        longest = max((len(r.title) for r in self.run.rows.values()), default=0)
        room = max(10, width - 3 - _TIME)
        left = min(longest, max(room * 2 // 5, 24), room)
        text = Text(f" {glyph} ", style, no_wrap=True, overflow="crop")
        text.append_text(
            fit(row.title, left, self.terminal, "bold" if running else "dim" if row.state == "waiting" else "")
        )
        text.append("  ")
        text.append_text(self._middle(row, max(0, room - left - 2)))
        return text.append(f"{took:>{_TIME}}", "" if running else "dim")

    def _middle(self, row: StepRow, width: int) -> Text:
        """Progress text and bar of a running step, or the note of one that ended."""
        if row.ended:
            return fit(row.note, width, self.terminal, STYLES[row.state])
        if row.state == "waiting":
            return fit("", width, self.terminal)
        if not row.count:
            return fit(row.text, width, self.terminal, "dim")
        figures = f" {row.count:>7}"
        bar_width = min(24, width // 3)
        if width - bar_width - len(figures) < _TEXT_ROOM:
            bar_width = 0
        full, empty = self.terminal.bar((row.done or 0) / (row.total or 1), bar_width)
        text = fit(row.text, width - bar_width - len(figures) - 1, self.terminal, "dim")
        return text.append(" ").append(full, "cyan").append(empty, "dim").append(figures)

    def _footer(self, width: int) -> Text:
        now = self._clock() - self._zero
        ended = sum(row.ended for row in self.run.rows.values())
        parts = [self.run.name, f"{ended} of {count(len(self.run.rows), 'step')}", whole_seconds(now)]
        if self.run.estimate:
            left = self.run.estimate - now
            parts.append(
                f"about {whole_seconds(left)} left"
                if left >= 1
                else f"longer than usual ({whole_seconds(self.run.estimate)})"
            )
        if failed := self.run.count("failed"):
            parts.append(f"{failed} failed")
        text = Text(f"\n {f' {self.terminal.dot} '.join(parts)}", "bold", no_wrap=True, overflow="crop")
        text.truncate(width + 1)
        return text
