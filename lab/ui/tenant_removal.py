"""How the removal of a tenant went: the moments with their seconds, what was cut short, what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab import text
from lab.tenants.removal.timeline import Milestone, Removal
from lab.ui.text_writer import Cell, TextWriter

if TYPE_CHECKING:
    from rich.console import Console

_NAMES = 12
"""How many pods whose grace was cut are named; ``--json`` has all."""


def render_removal(removal: Removal, console: Console | None = None) -> None:
    """A removal on stdout."""
    page = TextWriter(console)
    took = f"  {removal.seconds:.1f} s"
    if removal.left:
        page.line((f"Tenant {removal.tenant} is not wholly gone", "bold red"), took)
        page.columns([[(page.words.glyph("fail"), "red"), what] for what in removal.left], indent=2)
    else:
        page.line((f"Tenant {removal.tenant} is gone", "bold green"), f"{took}, checked: nothing of it is left")
    page.columns([_row(page, moment) for moment in removal.milestones], indent=2)
    if removal.disturbed:
        page.line(("pods of others that did not come through unharmed", "bold red"), indent=2)
        page.columns([[(page.words.glyph("fail"), "red"), what] for what in removal.disturbed], indent=4)
    _cut(page, removal)


def _row(page: TextWriter, moment: Milestone) -> list[Cell]:
    reached = moment.seconds is not None
    sign: Cell = (page.words.glyph("ok" if reached else "fail"), "green" if reached else "red")
    at = f"{moment.seconds:>6.1f} s" if moment.seconds is not None else "       -"
    return [sign, at, moment.name, (moment.detail, "dim" if reached else "red")]


def _cut(page: TextWriter, removal: Removal) -> None:
    count = len(removal.cut_grace)
    if not count or removal.grace is None:
        return
    pods = text.count(count, "pod")
    said = f"{pods} got {removal.grace:g} s to stop, less than their own grace"
    page.sentence((page.words.glyph("warn"), "yellow"), (said, "yellow"), indent=2)
    more = [f"{page.words.ellipsis} and {count - _NAMES} more"] if count > _NAMES else []
    page.columns([["-", line] for line in [*removal.cut_grace[:_NAMES], *more]], indent=4, gap=1)
