"""Results of ``kailab up``, ``status`` and ``down`` as text on stdout; errors and questions on stderr."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab.engine.step import Effect, ObservedStep
from lab.errors import LabError
from lab.objects.redact import redact_text
from lab.operations.abandoned import Abandoned, in_words
from lab.operations.results import DownReport, PauseReport, StatusReport, UpReport
from lab.text import count, seconds, workflow_command
from lab.ui.plan import fact_rows, write_effects, write_notices
from lab.ui.text_writer import TextWriter

if TYPE_CHECKING:
    from rich.console import Console


_AT = re.compile(r"(?P<file>[^\s:]+):(?P<line>\d+): (?P<text>.+)")
"""A message about a line of a file, as of lab files and manifests."""


def render_error(error: LabError, console: Console | None = None) -> None:
    """An error with its command, evidence and next action, without secrets, on stderr."""
    page = TextWriter(console, stderr=True)
    page.marked("fail", (redact_text(f"{error.title}: {error.what}"), "bold"))
    if error.command:
        page.line(("$ ", "dim"), redact_text(error.command), indent=2)
    for line in redact_text("\n".join(error.evidence)).splitlines():
        page.line(("| ", "dim"), line, indent=2)
    if error.fix:
        page.next(error.fix, indent=2)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for at in filter(None, map(_AT.match, (error.what, *error.evidence))):
            text = workflow_command("error", redact_text(at["text"]), file=at["file"], line=at["line"])
            page.console.file.write(text)


def render_effects(effects: Sequence[Effect], console: Console | None = None) -> None:
    """Host changes to be approved, and how to undo them, on stderr."""
    page = TextWriter(console, stderr=True)
    page.heading("Host changes", "recorded in a journal; kailab down --host undoes them")
    write_effects(page, effects)
    page.blank()


def render_undo(planned: Sequence[str], console: Console | None = None) -> None:
    """What undoing the host changes does to this machine, to be approved, on stderr."""
    page = TextWriter(console, stderr=True)
    page.heading("Undoing the host changes")
    page.columns([["-", line] for line in planned], indent=2, gap=1)
    page.blank()


def render_up(report: UpReport, console: Console | None = None) -> None:
    """The running lab: its notices, facts and kubeconfigs, and the next commands."""
    page = TextWriter(console)
    record = report.record
    took = seconds(record.seconds)
    words = took if record.changed else f"nothing to do, {count(len(record.steps), 'step')} as planned ({took})"
    page.line((f"Lab {report.name} is up", "bold green"), f"  {words}")
    write_notices(page, report.notices)
    page.columns(fact_rows(report.facts), indent=2)
    _kubeconfigs(page, report.kubeconfig, report.tenants)
    page.blank()
    page.line(f"kubectl --kubeconfig {report.kubeconfig} get pods -A", indent=2)
    page.line("kailab status", (" · ", "dim"), "kailab e2e", (" · ", "dim"), "kailab down", indent=2)


def render_status(report: StatusReport, console: Console | None = None) -> None:
    """The state of each step of the lab."""
    page = TextWriter(console)
    ready = sum(step.seen.state.value == "ready" for step in report.steps)
    page.line(
        (f"Lab {report.name} is ready", "bold green") if report.ok else (f"Lab {report.name} is not ready", "bold red"),
        f"  {ready} of {count(len(report.steps), 'step')} ready",
    )
    write_notices(page, report.notices)
    page.columns(fact_rows(report.facts), indent=2)
    page.blank()
    write_steps(page, report.steps)
    write_abandoned(page, report.abandoned, "Left by killed test runs or commands", "kailab verify removes it")
    _kubeconfigs(page, report.kubeconfig, report.tenants)
    if not report.ok:
        page.blank()
        page.next("kailab up", indent=2)


def render_pause(report: PauseReport, console: Console | None = None) -> None:
    """A lab that was paused or resumed."""
    page = TextWriter(console)
    state = "is paused" if report.paused else "runs" if report.nodes else "was not paused"
    took = f"  {count(report.nodes, 'node')}, {seconds(report.seconds)}"
    page.line((f"Lab {report.name} {state}", "bold green"), took)
    if report.paused:
        page.next(f"kailab resume --name {report.name}", indent=2)


def render_abandoned(
    removed: Sequence[Abandoned], unknown: Sequence[Abandoned], console: Console | None = None
) -> None:
    """What was removed of killed processes, and what stays, as nobody knows whether its process runs."""
    page = TextWriter(console)
    write_abandoned(page, removed, "Removed", "left by killed test runs or commands")
    write_abandoned(page, unknown, "Not removed", "of processes that may still run elsewhere")


def write_abandoned(page: TextWriter, found: Sequence[Abandoned], title: str, note: str = "") -> None:
    """Write what killed processes left, if anything."""
    if found:
        page.heading(title, note)
        page.items(in_words(found), page.sign("warn"), limit=20)


def write_steps(page: TextWriter, steps: Sequence[ObservedStep], indent: int = 1) -> None:
    """Write each step with its state, detail and diff."""
    width = max((len(step.title) for step in steps), default=0)
    for step in steps:
        seen, state = step.seen, step.seen.state.value
        sign = {"ready": "ok", "absent": "fail", "drifted": "warn"}[state]
        style = {"ready": "green", "absent": "red", "drifted": "yellow"}[state]
        detail = (seen.detail, "dim" if state == "ready" else "")
        glyph = page.terminal.glyph(sign)
        page.columns([[(glyph, style), f"{step.title:<{width}}", (f"{state:<7}", style), detail]], indent)
        for line in seen.diff:
            page.line((line, "yellow"), indent=indent + 4)


def render_down(report: DownReport, console: Console | None = None) -> None:
    """The result of ``kailab down``: removed, undone and kept."""
    page = TextWriter(console)
    page.line((f"Lab {report.name} is removed", "bold green"), f"  {seconds(report.seconds)}, no leftovers found")
    for title, lines, hint in (
        ("host changes undone", report.host_undone, ""),
        ("kept for the next lab", report.kept, "kailab down --images removes it"),
        ("host changes kept", report.host_changes, "kailab down --host undoes them"),
    ):
        if lines:
            page.line(title, (f"  {hint}" if hint else "", "dim"), indent=2)
            page.columns([["-", line] for line in lines], indent=4, gap=1)


def _kubeconfigs(page: TextWriter, own: Path, tenants: Mapping[str, Path]) -> None:
    page.heading("Kubeconfigs")
    page.columns([["cluster", str(own)], *([name, str(path)] for name, path in tenants.items())], indent=2)
