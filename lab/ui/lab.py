"""Reports as text. Results go to stdout; what a person is told or asked goes to stderr.

Each function takes a rich console for tests and other programs; without one it writes to the stream it belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab.engine.run import RunRecord
from lab.engine.step import Effect
from lab.errors import LabError
from lab.operations.results import DownReport, StatusReport, UpReport
from lab.text import count, seconds
from lab.ui.plan import fact_rows, render_plan, told_effects, told_notices
from lab.ui.text_writer import TextWriter

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "render_down",
    "render_effects",
    "render_error",
    "render_plan",
    "render_run",
    "render_status",
    "render_table",
    "render_up",
]

STATES = {"ready": "green", "absent": "red", "drifted": "yellow"}


def render_error(error: LabError, console: Console | None = None) -> None:
    """What happened, the command, the evidence and the next action, on stderr."""
    page = TextWriter(console, stderr=True)
    page.sentence((page.words.glyph("fail"), "bold red"), (f"{error.title}: {error.what}", "bold"))
    if error.command:
        page.line(("$ ", "dim"), error.command, indent=2)
    for line in error.evidence:
        page.line(("| ", "dim"), line, indent=2)
    if error.fix:
        page.sentence((page.words.glyph("next"), "cyan"), ("next: " + error.fix, "cyan"), indent=2)


def render_effects(effects: Sequence[Effect], console: Console | None = None) -> None:
    """Changes that need the user's word, with what undoes them, on stderr."""
    page = TextWriter(console, stderr=True)
    page.heading("Changes of this machine", "kept in a journal and undone on request")
    told_effects(page, effects)
    page.blank()


def render_table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], console: Console | None = None
) -> None:
    """A title and aligned rows."""
    page = TextWriter(console)
    page.line((title, "bold"))
    if not rows:
        page.line(("nothing", "dim"), indent=1)
        return
    page.columns([[(heading, "dim") for heading in headings], *rows])


def render_run(record: RunRecord, console: Console | None = None) -> None:
    """How every step of a run went, slowest last."""
    page = TextWriter(console)
    verb = "done" if record.ok else "stopped" if record.cancelled else "failed"
    page.line((f"lab {record.verb}: {verb} in {seconds(record.seconds)}", "bold"))
    page.columns(
        [
            [page.words.glyph(step.outcome), f"{seconds(step.seconds):>11}", step.step, step.outcome, step.detail]
            for step in sorted(record.steps, key=lambda step: step.seconds)
        ]
    )


def render_up(report: UpReport, console: Console | None = None) -> None:
    """That the lab is up, what it lacks, and where to go from here."""
    page = TextWriter(console)
    record = report.record
    if record.changed:
        page.line((f"Lab {report.name} is up", "bold green"), f"  {seconds(record.seconds)}")
    else:
        page.line(
            (f"Lab {report.name} is up", "bold green"),
            f"  nothing to do, {count(len(record.steps), 'step')} as planned ({seconds(record.seconds)})",
        )
    told_notices(page, report.notices)
    page.columns(fact_rows(report.facts), indent=2)
    _kubeconfigs(page, report.kubeconfig, report.tenants)
    page.blank()
    page.line(("kubectl --kubeconfig ", ""), str(report.kubeconfig), " get pods -A", indent=2)
    page.line(("lab status", ""), (" · ", "dim"), "nox -s e2e", (" · ", "dim"), "lab down", indent=2)


def render_status(report: StatusReport, console: Console | None = None) -> None:
    """How each part of the lab stands."""
    page = TextWriter(console)
    ready = sum(seen.state.value == "ready" for _, _, seen in report.steps)
    word = "ready" if report.ok else "not ready"
    page.line(
        (f"Lab {report.name} is {word}", "bold green" if report.ok else "bold red"),
        f"  {ready} of {count(len(report.steps), 'step')} ready",
    )
    told_notices(page, report.notices)
    page.columns(fact_rows(report.facts), indent=2)
    page.blank()
    width = max((len(title) for _, title, _ in report.steps), default=0)
    for _, title, seen in report.steps:
        state = seen.state.value
        sign = {"ready": "ok", "absent": "fail", "drifted": "warn"}[state]
        page.columns(
            [
                [
                    (page.words.glyph(sign), STATES[state]),
                    f"{title:<{width}}",
                    (f"{state:<7}", STATES[state]),
                    (seen.detail, "dim" if state == "ready" else ""),
                ]
            ]
        )
        for line in seen.diff:
            page.line((line, "yellow"), indent=5)
    _kubeconfigs(page, report.kubeconfig, report.tenants)
    if not report.ok:
        page.blank()
        page.sentence((page.words.glyph("next"), "cyan"), ("next: lab up", "cyan"), indent=2)


def render_down(report: DownReport, console: Console | None = None) -> None:
    """What is gone, what was kept on purpose, and what remains."""
    page = TextWriter(console)
    if report.left:
        page.line((f"Lab {report.name} is not wholly gone", "bold red"), f"  {seconds(report.seconds)}")
        page.columns([[(page.words.glyph("fail"), "red"), what] for what in report.left], indent=2)
    else:
        page.line(
            (f"Lab {report.name} is gone", "bold green"), f"  {seconds(report.seconds)}, checked: nothing of it is left"
        )
    for title, lines, hint in (
        ("undone on this machine", report.host_undone, ""),
        ("kept for the next lab", report.kept, "lab down --images removes it"),
        ("changed on this machine and kept", report.host_changes, "lab down --host undoes it"),
    ):
        if lines:
            page.line(title, (f"  {hint}" if hint else "", "dim"), indent=2)
            page.columns([["-", line] for line in lines], indent=4, gap=1)


def _kubeconfigs(page: TextWriter, own: Path, tenants: Mapping[str, Path]) -> None:
    page.heading("Kubeconfigs")
    page.columns([["cluster", str(own)], *([name, str(path)] for name, path in tenants.items())], indent=2)
