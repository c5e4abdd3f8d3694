"""Plain lines for logs: when a step starts, when it ends, and progress from time to time."""

from __future__ import annotations

from typing import TextIO

from lab.engine.events import Event, Notice, RunFinished, RunStarted, StepFinished, StepProgress, StepStarted
from lab.text import count, whole_seconds
from lab.ui.run_state import RunState, StepRow
from lab.ui.terminal import Terminal

QUIET = 10.0
"""Seconds without a line about a step after which its progress gets one."""

_WIDTH = 80
"""Column in which durations end."""


class Plain:
    """Writes plain lines without colour or cursor movement, in Unicode or ASCII as the stream's encoding allows."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.terminal = Terminal(getattr(stream, "encoding", None) or "utf-8")
        self.run = RunState()
        self._last: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        row = self.run.feed(event)
        match event:
            case RunStarted():
                self._last.clear()
                self.run_started(event)
            case StepStarted() if row:
                self._last[row.id] = event.at
                self.write(f" {self.terminal.glyph('running')} {row.title}")
            case StepProgress() if row and event.at - self._last.setdefault(row.id, event.at) >= QUIET:
                self._last[row.id] = event.at
                self.write(f"   {row.title}: {row.progress}  ({whole_seconds(event.at - row.began)})")
            case StepFinished() if row:
                self.step_finished(row)
            case Notice():
                self.notice(event)
            case RunFinished():
                self.run_finished(event)

    def run_started(self, event: RunStarted) -> None:
        about = f", about {whole_seconds(event.estimate)}" if event.estimate else ""
        self.write(f"{self.run.name}: {count(len(event.steps), 'step')}{about}")

    def step_finished(self, row: StepRow) -> None:
        self.write(self.finish_line(row))

    def notice(self, event: Notice) -> None:
        self.write(f"{event.level}: {event.text}")

    def run_finished(self, event: RunFinished) -> None:
        self.write(self.run.summary(event))

    def finish_line(self, row: StepRow) -> str:
        """The line of a step that ended, with its duration right-aligned; a long line is not cut."""
        left = f" {self.terminal.glyph(row.state)} {self.terminal.clean(row.title)}"
        if row.note:
            left += f" {self.terminal.dot} {self.terminal.clean(row.note)}"
        return f"{left}  {row.took:>{max(0, _WIDTH - len(left) - 2)}}".rstrip()

    def write(self, line: str) -> None:
        """Write a line, cleaned, and flush it: logs are read while they grow."""
        indent = " " * (len(line) - len(line.lstrip(" ")))
        self.raw(indent + self.terminal.clean(line) + "\n")

    def raw(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()

    def close(self) -> None:
        """Do nothing: there is no terminal state to restore."""
