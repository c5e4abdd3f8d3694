"""Printing the rehearsal of a KAI version, and its exit code."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from lab.cli.options import print_json
from lab.errors import NotProven
from lab.operations.kai.upgrade import KaiUpgrade
from lab.steps.kai.upgrade.rehearsal_result import Rehearsal
from lab.ui.rehearsal import render_rehearsal, render_upgrade


def print_rehearsal(report: Rehearsal, as_json: bool, lab: str = "") -> None:
    """Print a rehearsal; exit code 1 if it failed, 15 if tests are missing."""
    print_json(report) if as_json else render_rehearsal(report, lab=lab)
    _exit([report])


def print_upgrade(report: KaiUpgrade, as_json: bool, lab: str) -> None:
    """Print the rehearsals of a path; exit codes as for one."""
    print_json(report) if as_json else render_upgrade(report, lab)
    _exit(report.rehearsals)


def _exit(rehearsals: Sequence[Rehearsal]) -> None:
    if any(one.reasons for one in rehearsals):
        raise typer.Exit(1)
    if any(one.verdict == "not proven" for one in rehearsals):
        raise typer.Exit(NotProven.exit_code)
