"""A rehearsal or rollback of KAI as text: verdict, milestones, and the workloads before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.operations.kai.upgrade import KaiUpgrade
from lab.steps.kai.upgrade.change import Change
from lab.steps.kai.upgrade.rehearsal_result import Rehearsal
from lab.steps.kai.upgrade.smoke_test import SmokeTest
from lab.steps.kai.upgrade.workload_snapshot import SnapshotDiff
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


def render_upgrade(found: KaiUpgrade, lab: str, console: Console | None = None) -> None:
    """The rehearsals of a path on stdout, and its verdict if it has several versions."""
    for one in found.rehearsals:
        render_rehearsal(one, console, lab=lab)
    page = TextWriter(console)
    if len(found.path) > 1:
        page.blank()
        page.line((f"path to KAI {' → '.join(found.path)}: ", "bold"), _VERDICTS[found.verdict])
        page.items([f"not reached: {version}" for version in found.not_reached], page.sign("skip"), _SHOWN)


def render_rehearsal(found: Rehearsal, console: Console | None = None, *, lab: str = "") -> None:
    """The whole rehearsal on stdout; ``lab`` names the lab whose own KAI it is, if not a tenant's."""
    page = TextWriter(console)
    where = f"tenant {found.tenant}" if found.tenant else f"lab {lab}"
    rollback = f"kailab tenant rollback {found.tenant}" if found.tenant else "kailab kai rollback"
    page.line((f"KAI {found.before or 'none'} → {found.version} in {where}: ", "bold"), _VERDICTS[found.verdict])
    page.items(found.reasons, page.sign("fail"), _SHOWN, more=_MORE)
    page.items([f"missing: {line}" for line in found.missing], page.sign("warn"), _SHOWN, more=_MORE)
    if found.change is not None:
        _change(page, found.change, "Change")
    if found.load:
        page.heading("Load", "started before the change, running through it")
        page.columns([[one.name, _result(one)] for one in found.load])
    if found.trials:
        page.heading("Smoke tests", "after the change")
        page.columns([[trial.name, _result(trial)] for trial in found.trials])
    if found.suites.summary:
        page.heading("Suites", "" if found.suites.ran else "none")
        page.line(found.suites.summary, indent=1)
        page.items(found.suites.failed, page.sign("fail"), _SHOWN, more=_MORE)
        page.items([f"skipped: {line}" for line in found.suites.skipped], page.sign("skip"), _SHOWN, more=_MORE)
        if found.suites.failed:
            page.line(f"pytest's output: {found.suites.folder}", indent=1)
    if found.under_load is not None:
        _comparison(page, found.under_load, "All workloads, after the smoke tests")
    if found.invariants is not None:
        page.heading("Invariants", f"watched for {found.invariants.seconds:.0f} s")
        held = sum(result.state == "held" for result in found.invariants.results)
        broken = [line for one in found.invariants.violations for line in one.lines()]
        page.line(f"{held} held, {count(len(found.invariants.violations), 'violation')}", indent=1)
        page.items(broken, page.sign("fail"), _SHOWN, more=_MORE)
    if found.outcome is not None:
        _comparison(page, found.outcome, "Earlier workloads, after the change")
    if found.back is not None:
        _change(page, found.back, "Rollback")
        page.items(found.back.problems, page.sign("fail"), _SHOWN, more=_MORE)
        _comparison(page, found.back.comparison, "Earlier workloads, after the rollback")
    elif found.error_back:
        page.heading("Rollback failed")
        page.line((found.error_back, "red"), indent=1)
    page.blank()
    if found.now:
        kept = ", although the rehearsal failed (--keep)" if found.kept else ""
        page.line((f"{where} has KAI {found.now} now{kept}", "bold"))
        if found.verdict == "not proven":
            page.next(f"repeat the command where these tests can run, or return: {rollback}", 1)
    else:
        page.line((f"the change is incomplete: {rollback}", "bold red"))


def _change(page: TextWriter, change: Change, title: str) -> None:
    page.heading(title, f"KAI {change.before or 'none'} → {change.after or 'none'}, {change.how}")
    page.columns([[one.name, "-" if one.seconds is None else f"{one.seconds:.1f} s"] for one in change.milestones])
    if change.unscheduled is not None:
        page.line(f"new pods waited at most {change.unscheduled:.1f} s for a node", indent=1)


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
