"""Faces for CI systems: foldable groups, annotations, a summary page.

Steps run side by side, and neither GitHub's groups nor GitLab's sections can be interleaved. So a step's
progress is kept back and folded under its finish line; what takes long still shows as a plain line at times.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from lab.engine.events import Event, Notice, RunFinished, RunStarted, StepProgress, StepStarted
from lab.text import seconds
from lab.ui.plain import QUIET, Plain, progress
from lab.ui.run_state import StepRow


class _Folding(Plain):
    """Plain lines, plus the progress of each step kept for its group."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._kept: dict[str, list[str]] = {}
        self._said: dict[str, tuple[str, float]] = {}

    def __call__(self, event: Event) -> None:
        """Keep progress, then go on as plain lines do."""
        super().__call__(event)
        if isinstance(event, StepStarted):
            self._kept[event.step] = []
        elif isinstance(event, StepProgress):
            row = self.story.rows[event.step]
            line = f"   {seconds(event.at - row.began):>10}  {self.words.clean(progress(row))}"
            kept = self._kept.setdefault(event.step, [])
            said, at = self._said.get(event.step, ("", 0.0))
            if row.text != said or event.at - at >= QUIET:  # figures alone may change a thousand times
                self._said[event.step] = (row.text, event.at)
                kept.append(line)

    def step_finished(self, row: StepRow) -> None:
        """Write the finish line, with the progress folded under it."""
        lines = self._kept.pop(row.id, [])
        self._said.pop(row.id, None)
        if lines:
            self.fold(row, self.finish_line(row), lines)
        else:
            self.write(self.finish_line(row))

    def fold(self, row: StepRow, title: str, lines: list[str]) -> None:
        """Write a group; a log that cannot fold has its lines below the title."""
        self.write(title)
        for line in lines:
            self.write(line)


class GitHub(_Folding):
    """GitHub Actions: ``::group::``, annotations, and a table on the job's summary page.

    Syntax: docs.github.com, "Workflow commands for GitHub Actions".

    Args:
        stream: the job's log.
        summary: the file named by GITHUB_STEP_SUMMARY, if there is one.
    """

    def __init__(self, stream: TextIO, summary: str | None = None) -> None:
        super().__init__(stream)
        self._summary = Path(summary) if summary else None
        self._warnings: list[str] = []

    def run_started(self, event: RunStarted) -> None:
        """Forget the warnings of an earlier run."""
        self._warnings.clear()
        super().run_started(event)

    def fold(self, row: StepRow, title: str, lines: list[str]) -> None:
        """One group; groups do not nest."""
        self.raw(f"::group::{_escape(title.strip())}\n" + "".join(f"{line}\n" for line in lines) + "::endgroup::\n")

    def step_finished(self, row: StepRow) -> None:
        """A failed step is an annotation as well."""
        super().step_finished(row)
        if row.state == "failed":
            title = _escape(self.words.clean(row.title)).replace(":", "%3A").replace(",", "%2C")
            self.raw(f"::error title={title}::{_escape(self.words.clean(row.detail))}\n")

    def notice(self, event: Notice) -> None:
        """Notices become annotations."""
        text = self.words.clean(event.text)
        if event.level == "warning":
            self._warnings.append(text)
        self.raw(f"::{'warning' if event.level == 'warning' else 'notice'}::{_escape(text)}\n")

    def run_finished(self, event: RunFinished) -> None:
        """Write the last line, and the table on the summary page."""
        super().run_finished(event)
        if self._summary is None:
            return
        try:
            with self._summary.open("a", encoding="utf-8") as file:
                file.write(self._page(event))
        except OSError as error:
            self.raw(f"::warning::{_escape(f'the job summary cannot be written: {error}')}\n")

    def _page(self, event: RunFinished) -> str:
        words = type(self.words)("utf-8")
        lines = [f"### {self.story.name}", "", _cell(self.story.summary(event)), ""]
        lines += [f"> ⚠️ {_cell(text)}" for text in self._warnings]
        lines += ["", "| | step | time | |", "|---|---|---:|---|"]
        for row in self.story.rows.values():
            note = row.note if row.ended else "not started"
            title = _cell(words.clean(row.title))
            lines.append(f"| {words.glyph(row.state)} | {title} | {row.took} | {_cell(words.clean(note))} |")
        return "\n".join(lines) + "\n\n"


class GitLab(_Folding):
    """GitLab CI: collapsed sections that carry the step's real times.

    Syntax: docs.gitlab.com, "CI/CD job logs", custom collapsible sections.

    Args:
        stream: the job's log.
        now: Unix time in seconds.
    """

    def __init__(self, stream: TextIO, now: Callable[[], float] = time.time) -> None:
        super().__init__(stream)
        self._now = now

    def fold(self, row: StepRow, title: str, lines: list[str]) -> None:
        """One collapsed section; GitLab computes its duration from the two times."""
        end = int(self._now())
        name = "lab_" + re.sub(r"[^a-z0-9]+", "_", row.id.lower())
        self.raw(f"\x1b[0Ksection_start:{end - round(row.seconds)}:{name}[collapsed=true]\r\x1b[0K{title}\n")
        self.raw("".join(f"{line}\n" for line in lines) + f"\x1b[0Ksection_end:{end}:{name}\r\x1b[0K\n")


def _escape(text: str) -> str:
    """Data of a workflow command, escaped as the runner unescapes it (actions/toolkit, command.ts)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _cell(text: str) -> str:
    """Text inside a Markdown table."""
    return re.sub(r"([\\|`*_<>\[\]])", r"\\\1", text)
