"""Errors, tables and runs as text; ``reports`` has the results of the verbs.

Each function takes a rich console for tests and other programs; without one, results go to stdout and errors
to stderr.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.ui.text import Page
from lab.ui.words import seconds

if TYPE_CHECKING:
    from rich.console import Console

    from lab.engine.run import RunRecord
    from lab.errors import LabError

STYLES = {"changed": "green", "failed": "bold red", "cancelled": "yellow", "blocked": "yellow"}


def render_error(error: LabError, console: Console | None = None) -> None:
    """What happened, the command, the evidence and the next action, on stderr."""
    page = Page(console, stderr=True)
    page.sentence((page.words.glyph("fail"), "bold red"), (f"{error.title}: {error.what}", "bold"))
    if error.command:
        page.line(("$ ", "dim"), error.command, indent=2)
    for line in error.evidence:
        page.line(("| ", "dim"), line, indent=2)
    if error.fix:
        page.sentence((page.words.glyph("next"), "cyan"), (f"next: {error.fix}", "cyan"), indent=2)


def render_table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], console: Console | None = None
) -> None:
    """A title and aligned rows."""
    page = Page(console)
    page.line((title, "bold"))
    if not rows:
        page.line(("nothing", "dim"), indent=1)
        return
    page.columns([[(heading, "dim") for heading in headings], *rows])


def render_run(record: RunRecord, console: Console | None = None) -> None:
    """How every step of a run went, slowest last."""
    page = Page(console)
    verb = "done" if record.ok else "stopped" if record.cancelled else "failed"
    page.line((f"lab {record.verb}: {verb} in {seconds(record.seconds)}", "bold"))
    page.columns(
        [
            [
                (page.words.glyph(step.outcome), STYLES.get(step.outcome, "dim")),
                f"{seconds(step.seconds):>11}",
                step.step,
                step.outcome,
                step.detail,
            ]
            for step in sorted(record.steps, key=lambda step: step.seconds)
        ]
    )
