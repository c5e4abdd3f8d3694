"""The removal of a tenant as text: milestones, shortened grace periods, leftovers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.engine.milestones import Milestone
from lab.tenants.removal.timeline import Removal
from lab.text import count
from lab.ui.text_writer import Cell, TextWriter

if TYPE_CHECKING:
    from rich.console import Console

_NAMES = 12
"""Pods with a shortened grace period that are listed; ``--json`` lists all."""


def render_removal(removal: Removal, console: Console | None = None) -> None:
    """A removal on stdout."""
    page = TextWriter(console)
    took = f"  {removal.seconds:.1f} s"
    if removal.left:
        page.line((f"Tenant {removal.tenant} was only partly removed", "bold red"), took)
        page.columns([[page.sign("fail"), what] for what in removal.left], indent=2)
    else:
        page.line((f"Tenant {removal.tenant} is removed", "bold green"), f"{took}, no leftovers found")
    page.columns([_row(page, milestone) for milestone in removal.milestones], indent=2)
    if removal.disturbed:
        page.line(("disturbed pods of others", "bold red"), indent=2)
        page.columns([[page.sign("fail"), what] for what in removal.disturbed], indent=4)
    if removal.cut_grace and removal.grace is not None:
        pods = count(len(removal.cut_grace), "pod")
        text = f"{pods} got {removal.grace:g} s to stop, less than their own grace period"
        page.marked("warn", (text, "yellow"), indent=2)
        page.items(removal.cut_grace, "-", _NAMES, indent=4)


def _row(page: TextWriter, milestone: Milestone) -> list[Cell]:
    reached = milestone.seconds is not None
    at = f"{milestone.seconds:>6.1f} s" if reached else "       -"
    return [page.sign("ok" if reached else "fail"), at, milestone.name, (milestone.detail, "dim" if reached else "red")]
