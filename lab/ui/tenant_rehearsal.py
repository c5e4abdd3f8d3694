"""A rehearsal or rollback of a tenant's KAI as text: verdict, milestones, and the workloads before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.tenants.upgrade.rehearsal_result import Rehearsal
from lab.tenants.upgrade.smoke_test import SmokeTest
from lab.tenants.upgrade.upgrade import Change
from lab.tenants.upgrade.workload_snapshot import SnapshotDiff
from lab.text import count
from lab.ui.text_writer import Cell, TextWriter

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = 20
"""Lines of each list that are shown."""
_MORE = "; --json lists all"
_VERDICTS: dict[str, Cell] = {
    "green": ("passed", "bold green"),
    "red": ("failed", "bold red"),
    "not proven": ("not proven", "bold yellow"),
}


def render_rehearsal(found: Rehearsal, console: Console | None = None) -> None:
    """The whole rehearsal on stdout."""
    page = TextWriter(console)
    page.line(
        (f"KAI {found.before or 'none'} → {found.version} in tenant {found.tenant}: ", "bold"), _VERDICTS[found.verdict]
    )
    page.items(found.reasons, page.sign("fail"), _SHOWN, more=_MORE)
    page.items([f"missing: {line}" for line in found.missing], page.sign("warn"), _SHOWN, more=_MORE)
    if found.change is not None:
        _change(page, found.change, "Change")
    if found.trials:
        page.heading("Smoke tests", "in the tenant, after the change")
        page.columns([[trial.name, _result(trial)] for trial in found.trials])
    if found.suites.summary:
        page.heading("Suites", "" if found.suites.ran else "none")
        page.line(found.suites.summary, indent=1)
        page.items(found.suites.failed, page.sign("fail"), _SHOWN, more=_MORE)
        page.items([f"skipped: {line}" for line in found.suites.skipped], page.sign("skip"), _SHOWN, more=_MORE)
        if found.suites.failed:
            page.line(f"pytest's output: {found.suites.folder}", indent=1)
    if found.outcome is not None:
        _comparison(page, found.outcome, "Earlier workloads, after the change")
    if found.back is not None:
        _change(page, found.back, "Rollback")
        _comparison(page, found.back.comparison, "Earlier workloads, after the rollback")
    elif found.error_back:
        page.heading("Rollback failed")
        page.line((found.error_back, "red"), indent=1)
    page.blank()
    if found.now:
        kept = ", although the rehearsal failed (--keep)" if found.kept else ""
        page.line((f"tenant {found.tenant} has KAI {found.now} now{kept}", "bold"))
        if found.verdict == "not proven":
            page.next(f"repeat the command where these tests can run, or return: lab tenant rollback {found.tenant}", 1)
    else:
        page.line((f"the change is incomplete: lab tenant rollback {found.tenant}", "bold red"))


def _change(page: TextWriter, change: Change, title: str) -> None:
    page.heading(title, f"KAI {change.before or 'none'} → {change.after or 'none'}, {change.how}")
    page.columns([[one.name, "-" if one.seconds is None else f"{one.seconds:.1f} s"] for one in change.milestones])


def _comparison(page: TextWriter, comparison: SnapshotDiff, title: str) -> None:
    page.heading(title, f"{count(comparison.kept, 'pod')} kept: same UID, node, GPUs and restarts")
    page.items(comparison.harm, page.sign("fail"), _SHOWN, more=_MORE)
    page.items(comparison.notes, page.sign("warn"), _SHOWN, more=_MORE)


def _result(trial: SmokeTest) -> Cell:
    if trial.problem:
        return (trial.problem, "red")
    if trial.seconds is None:
        return (f"skipped: {trial.skipped}", "dim")
    return f"Ready after {trial.seconds:.1f} s"
