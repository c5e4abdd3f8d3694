"""Output for CI systems: groups that can be folded, annotations, a summary page.

Steps run in parallel, and neither GitHub's groups nor GitLab's sections can be interleaved. So a step's progress is
collected and folded under its finish line; a slow step still writes plain lines from time to time.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from lab.engine.events import Event, Notice, RunFinished, RunStarted, StepProgress, StepStarted
from lab.text import seconds, workflow_command
from lab.ui.plain import QUIET, Plain
from lab.ui.run_state import StepRow
from lab.ui.terminal import Terminal


class _Folding(Plain, ABC):
    """Plain lines, and the progress of each step collected for its group."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lines: dict[str, list[str]] = {}
        self._latest: dict[str, tuple[str, float]] = {}

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if isinstance(event, StepStarted):
            self._lines[event.step] = []
        elif isinstance(event, StepProgress):
            row = self.run.rows[event.step]
            text, at = self._latest.get(event.step, ("", 0.0))
            if row.text != text or event.at - at >= QUIET:  # figures alone may change a thousand times
                self._latest[event.step] = (row.text, event.at)
                line = f"   {seconds(event.at - row.began):>10}  {self.terminal.clean(row.progress)}"
                self._lines.setdefault(event.step, []).append(line)

    def step_finished(self, row: StepRow) -> None:
        """Write the finish line, with the progress folded under it."""
        lines = self._lines.pop(row.id, [])
        self._latest.pop(row.id, None)
        if lines:
            self.fold(row, self.finish_line(row), "".join(f"{line}\n" for line in lines))
        else:
            self.write(self.finish_line(row))

    @abstractmethod
    def fold(self, row: StepRow, title: str, lines: str) -> None:
        """Write a group."""


class GitHub(_Folding):
    """GitHub Actions: ``::group::``, annotations, and a table on the job's summary page (file GITHUB_STEP_SUMMARY).

    Syntax: docs.github.com, "Workflow commands for GitHub Actions".
    """

    def __init__(self, stream: TextIO, summary: str | None = None) -> None:
        super().__init__(stream)
        self._summary = Path(summary) if summary else None
        self._warnings: list[str] = []

    def run_started(self, event: RunStarted) -> None:
        """Reset the warnings."""
        self._warnings.clear()
        super().run_started(event)

    def fold(self, row: StepRow, title: str, lines: str) -> None:
        """Write a group; groups do not nest."""
        self.raw(f"{workflow_command('group', title.strip())}{lines}::endgroup::\n")

    def step_finished(self, row: StepRow) -> None:
        """Annotate a failed step as well."""
        super().step_finished(row)
        if row.state == "failed":
            detail, title = self.terminal.clean(row.detail), self.terminal.clean(row.title)
            self.raw(workflow_command("error", detail, title=title))

    def notice(self, event: Notice) -> None:
        """Write an annotation."""
        text = self.terminal.clean(event.text)
        if event.level == "warning":
            self._warnings.append(text)
        self.raw(workflow_command("warning" if event.level == "warning" else "notice", text))

    def run_finished(self, event: RunFinished) -> None:
        """Write the last line, and the table on the summary page."""
        super().run_finished(event)
        if self._summary is None:
            return
        try:
            with self._summary.open("a", encoding="utf-8") as file:
                file.write(self._page(event))
        except OSError as error:
            self.raw(workflow_command("warning", f"the job summary cannot be written: {error}"))

    def _page(self, event: RunFinished) -> str:
        unicode = Terminal("utf-8")
        lines = [f"### {self.run.name}", "", _cell(self.run.summary(event)), ""]
        lines += [f"> ⚠️ {_cell(text)}" for text in self._warnings]
        lines += ["", "| | step | time | |", "|---|---|---:|---|"]
        for row in self.run.rows.values():
            note = row.note if row.ended else "not started"
            title = _cell(unicode.clean(row.title))
            lines.append(f"| {unicode.glyph(row.state)} | {title} | {row.took} | {_cell(unicode.clean(note))} |")
        return "\n".join(lines) + "\n\n"


class GitLab(_Folding):
    """GitLab CI: collapsed sections with the step's real times; ``now`` is Unix time in seconds.

    Syntax: docs.gitlab.com, "CI/CD job logs", custom collapsible sections.
    """

    def __init__(self, stream: TextIO, now: Callable[[], float] = time.time) -> None:
        super().__init__(stream)
        self._now = now

    def fold(self, row: StepRow, title: str, lines: str) -> None:
        """Write a collapsed section; GitLab computes its duration from the two times."""
        end = int(self._now())
        name = "lab_" + re.sub(r"[^a-z0-9]+", "_", row.id.lower())
        self.raw(f"\x1b[0Ksection_start:{end - round(row.seconds)}:{name}[collapsed=true]\r\x1b[0K{title}\n")
        self.raw(f"{lines}\x1b[0Ksection_end:{end}:{name}\r\x1b[0K\n")


def _cell(text: str) -> str:
    """Escape text for a Markdown table."""
    return re.sub(r"([\\|`*_<>\[\]])", r"\\\1", text)
