"""The face for logs: one line when a step starts, one when it ends, now and then one about its progress."""

from __future__ import annotations

from typing import TextIO

from lab.engine.events import Event, Notice, RunFinished, RunStarted, StepFinished, StepProgress, StepStarted
from lab.text import count, whole_seconds
from lab.ui.run_state import RunState, StepRow
from lab.ui.terminal import Terminal

QUIET = 10.0
"""Seconds without a line about a step before its progress is worth one."""


class Plain:
    """Plain lines without colour or cursor movement.

    Args:
        stream: where to write; its encoding decides between Unicode and ASCII.
        width: column in which times end.
    """

    def __init__(self, stream: TextIO, width: int = 80) -> None:
        self.stream = stream
        self.width = width
        self.words = Terminal(getattr(stream, "encoding", None) or "utf-8")
        self.story = RunState()
        self._last: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        row = self.story.feed(event)
        match event:
            case RunStarted():
                self._last.clear()
                self.run_started(event)
            case StepStarted() if row:
                self._last[row.id] = event.at
                self.step_started(row)
            case StepProgress() if row and event.at - self._last.setdefault(row.id, event.at) >= QUIET:
                self._last[row.id] = event.at
                self.write(f"   {row.title}: {progress(row)}  ({whole_seconds(event.at - row.began)})")
            case StepFinished() if row:
                self.step_finished(row)
            case Notice():
                self.notice(event)
            case RunFinished():
                self.run_finished(event)

    def run_started(self, event: RunStarted) -> None:
        about = f", about {whole_seconds(event.estimate)}" if event.estimate else ""
        self.write(f"{self.story.name}: {count(len(event.steps), 'step')}{about}")

    def step_started(self, row: StepRow) -> None:
        self.write(f" {self.words.glyph('running')} {row.title}")

    def step_finished(self, row: StepRow) -> None:
        self.write(self.finish_line(row))

    def notice(self, event: Notice) -> None:
        self.write(f"{event.level}: {event.text}")

    def run_finished(self, event: RunFinished) -> None:
        self.write(self.story.summary(event))

    def finish_line(self, row: StepRow) -> str:
        """The line of a step that ended, its time right-aligned; a long line keeps all its words."""
        left = f" {self.words.glyph(row.state)} {self.words.clean(row.title)}"
        if row.note:
            left += f" {self.words.dot} {self.words.clean(row.note)}"
        return f"{left}  {row.took:>{max(0, self.width - len(left) - 2)}}".rstrip()

    def write(self, line: str) -> None:
        """Write one line, cleaned, and flush it: logs are read while they grow."""
        indent = " " * (len(line) - len(line.lstrip(" ")))
        self.raw(indent + self.words.clean(line) + "\n")

    def raw(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()

    def close(self) -> None:
        """Nothing to give back."""


def progress(row: StepRow) -> str:
    """How far a step is, in words and figures."""
    return " ".join(part for part in (row.text, row.count) if part)
