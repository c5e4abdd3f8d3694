"""Queues as a tree of bars in the terminal: allocated, fair share, quota and limit."""

from __future__ import annotations

from rich.console import Console

from lab.explain.queue_explanation import UNITS, QueueExplanation, QueueFigures, QueueTree
from lab.ui.findings import write_finding
from lab.ui.text_writer import Cell, TextWriter

_WIDTH = 32


def render_queues(tree: QueueTree, console: Console | None = None) -> None:
    """The tree as bars, then each requested queue: its figures, why it gets them, loans and findings."""
    page = TextWriter(console)
    unit = UNITS[tree.resource]
    page.line((f"Queues by {unit}", "bold"), (f"  KAI divides {tree.total.get(tree.resource, 0):g} {unit}", "dim"))
    signs = _signs(page)
    names = ("allocated", "up to the fair share", "quota", "limit")
    page.line(("  ".join(f"{sign} {name}" for sign, name in zip(signs, names, strict=True)), "dim"), indent=1)
    rows: list[list[Cell]] = [["queue", "", "allocated", "fair share", "quota", "weight", "limit", "requested"]]
    for queue in tree.queues:
        row = queue.resources[tree.resource]
        style = "bold" if queue.name == tree.asked else ""
        figures = (row.allocated, row.fair, row.quota, row.weight, row.limit, row.requested)
        picture = bar(row, tree.scale, signs)
        rows.append([("  " * queue.depth + queue.name, style), picture, *map(_number, figures)])
    page.columns(rows)
    for queue in tree.explained:
        if tree.asked or any(finding.severity == "warning" for finding in queue.findings):
            page.blank()
            _queue(page, queue)
    for name in tree.dropped:
        page.marked("warn", f"KAI ignores queue {name}: a parent of it does not exist")


def bar(row: QueueFigures, scale: float, signs: tuple[str, str, str, str]) -> str:
    """A queue in ``_WIDTH`` cells of ``scale`` in total; a mark of the quota or limit lies over the rest."""
    cells = [" "] * (_WIDTH + 1)

    def at(value: float) -> int:
        return min(_WIDTH, max(0, round(value / scale * _WIDTH))) if scale else 0

    for place in range(at(max(row.fair, row.allocated))):
        cells[place] = signs[0] if place < at(row.allocated) else signs[1]
    for value, sign in ((row.limit, signs[3]), (row.quota, signs[2])):
        if value != -1:
            cells[at(value)] = sign
    return "".join(cells)


def _queue(page: TextWriter, queue: QueueExplanation) -> None:
    page.line((f"Queue {queue.name}", "bold"), (f"  priority {queue.priority}", "dim"))
    rows: list[list[Cell]] = [
        ["", "quota", "weight", "limit", "fair share", "KAI's", "allocated", "status", "requested"]
    ]
    for name, row in queue.resources.items():
        kai = "unknown" if row.kai_fair is None else _number(row.kai_fair)
        figures = [row.quota, row.weight, row.limit, row.fair]
        more = [row.allocated, row.status_allocated, row.requested]
        rows.append([UNITS[name], *map(_number, figures), kai, *map(_number, more)])
    page.columns(rows, indent=2)
    for line in queue.why:
        page.paragraph("-", line, indent=2)
    for title, loans in (("borrows from", queue.borrows_from), ("its unused quota is used by", queue.borrowed_by)):
        if loans:
            names = ", ".join(f"{name} ({value:g})" for name, value in loans.items())
            page.paragraph("-", f"{title}: {names}", indent=2)
    for finding in queue.findings:
        write_finding(page, finding)


def _signs(page: TextWriter) -> tuple[str, str, str, str]:
    return ("█", "░", "|", "▶") if page.terminal.unicode else ("#", "-", "|", ">")


def _number(value: float) -> str:
    return "unlimited" if value == -1 else f"{value:.6g}"
