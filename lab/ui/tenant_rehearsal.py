"""How a rehearsal or a rollback of a tenant's KAI went, for people: verdict, moments, what became of what ran."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lab.tenants.upgrade.rehearsal_result import Rehearsal
from lab.tenants.upgrade.smoke_test import SmokeTest
from lab.tenants.upgrade.upgrade import Change
from lab.tenants.upgrade.workload_snapshot import SnapshotDiff
from lab.ui.text_writer import Cell, TextWriter

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = 20
"""Lines of each list that are shown; of more, how many."""


def render_rehearsal(found: Rehearsal, console: Console | None = None) -> None:
    """The whole rehearsal on stdout."""
    page = TextWriter(console)
    word: Cell = ("green", "bold green") if found.green else ("red", "bold red")
    page.line((f"KAI {found.before or 'none'} → {found.version} in tenant {found.tenant}: ", "bold"), word)
    _list(page, found.reasons, "fail")
    if found.change is not None:
        _change(page, found.change, "Change")
    if found.trials:
        page.heading("Trial pods", "in the tenant, after the change")
        page.columns([[trial.name, _fared(trial)] for trial in found.trials])
    if found.suites.summary:
        page.heading("Suites", "" if found.suites.ran else "none")
        page.line(found.suites.summary, indent=1)
        _list(page, found.suites.failed, "fail")
        if found.suites.failed:
            page.line(f"all that pytest said: {found.suites.folder}", indent=1)
    if found.outcome is not None:
        _comparison(page, found.outcome, "What ran before, after all that")
    if found.back is not None:
        _change(page, found.back, "Taken back")
        _comparison(page, found.back.comparison, "What ran before, after going back")
    elif found.error_back:
        page.heading("Not taken back")
        page.line((found.error_back, "red"), indent=1)
    page.blank()
    page.line(_now(found))


def _change(page: TextWriter, change: Change, title: str) -> None:
    page.heading(title, f"KAI {change.before or 'none'} → {change.after or 'none'}, {change.how}")
    rows: list[list[Cell]] = [
        [moment.name, "-" if moment.seconds is None else f"{moment.seconds:.1f} s"] for moment in change.milestones
    ]
    page.columns(rows)


def _comparison(page: TextWriter, comparison: SnapshotDiff, title: str) -> None:
    pods = "pod" if comparison.kept == 1 else "pods"
    page.heading(title, f"{comparison.kept} {pods} kept: same UID, node, GPUs and restarts")
    _list(page, comparison.harm, "fail")
    _list(page, comparison.notes, "warn")


def _list(page: TextWriter, lines: Iterable[str], sign: str) -> None:
    found = list(lines)
    for line in found[:_SHOWN]:
        page.sentence((page.words.glyph(sign), "red" if sign == "fail" else "yellow"), line, indent=1)
    if len(found) > _SHOWN:
        page.line((f"and {len(found) - _SHOWN} more; --json lists all", "dim"), indent=1)


def _fared(trial: SmokeTest) -> Cell:
    if trial.problem:
        return (trial.problem, "red")
    if trial.seconds is None:
        return (f"not tried: {trial.skipped}", "dim")
    return f"Ready after {trial.seconds:.1f} s"


def _now(found: Rehearsal) -> Cell:
    if not found.now:
        return (f"tenant {found.tenant} is half way: lab tenant rollback {found.tenant}", "bold red")
    kept = ", although the verdict is red (--keep)" if found.kept else ""
    return (f"tenant {found.tenant} has KAI {found.now} now{kept}", "bold")
