"""A comparison of two tenants: tables on a terminal, plain lines in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.compare.model import Comparison, PodRun
from lab.compare.text import NONE, figures, moment, order_of_starts, pairs, remarks, state, where
from lab.ui.terminal import Terminal


def render_comparison(comparison: Comparison, console: Console | None = None, width: int | None = None) -> None:
    """Draw tables on a terminal or with a given width; write plain lines elsewhere."""
    console = console or Console(highlight=False, emoji=False, markup=False)
    terminal = Terminal(console.encoding)
    if width is None and not console.is_terminal:
        for line in comparison_lines(comparison):
            console.print(terminal.clean(line, indent=True), soft_wrap=True, markup=False, highlight=False)
        return
    for table in _tables(comparison, terminal):
        table.width = width
        console.print(table, width=width)
    for line in _below(comparison):
        console.print(terminal.clean(line, indent=True), width=width, markup=False, highlight=False)


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Everything as plain lines, one fact each."""
    a, b = comparison.a, comparison.b
    yield f"A {a.tenant}: {a.scheduler}; B {b.tenant}: {b.scheduler}; order of runs: {comparison.order}"
    for figure in figures(comparison):
        note = f" ({figure.note})" if figure.note else ""
        yield f"{figure.name}{note}: A {figure.a}; B {figure.b}"
    for number in range(1, comparison.rounds + 1):
        for lane, a_pod, b_pod in pairs(comparison, number):
            yield f"round {number}: {lane}: A {_pod(a_pod)}; B {_pod(b_pod)}"
    for one in comparison.differences:
        of = f" of {', '.join(one.lanes)}" if one.lanes else ""
        yield f"{one.kind} {one.name}{of}: A {one.a or NONE}; B {one.b or NONE}"
    yield from _below(comparison)


def _below(comparison: Comparison) -> Iterator[str]:
    for number in range(1, comparison.rounds + 1):
        yield f"round {number}, order of starts: {order_of_starts(comparison, number)}"
    for title, lines in remarks(comparison):
        yield title
        yield from (f"  {line}" for line in lines)
    yield comparison.clock


def _tables(comparison: Comparison, terminal: Terminal) -> Iterator[Table]:
    heads = [f"{side.letter.upper()}  {side.tenant}" for side in comparison.sides]
    title = f"Side by side in lab {comparison.lab}; order of runs: {comparison.order}"
    yield _table(terminal, title, ["", *heads], ((one.name, one.a, one.b) for one in figures(comparison)))
    for number in range(1, comparison.rounds + 1):
        title = f"Pods of round {number}: seconds to a node and to running, place, state"
        rows = ((lane, _pod(a), _pod(b)) for lane, a, b in pairs(comparison, number))
        yield _table(terminal, title, ["pod", *heads], rows)
    if comparison.differences:
        title = "Differences in labels, annotations and PodGroups"
        found = comparison.differences
        written = ((f"{one.kind} {one.name}", one.a or NONE, one.b or NONE, ", ".join(one.lanes)) for one in found)
        yield _table(terminal, title, ["", *heads, "pods"], written)


def _table(terminal: Terminal, title: str, heads: list[str], rows: Iterable[tuple[str, ...]]) -> Table:
    style = box.SIMPLE_HEAD if terminal.unicode else box.ASCII2
    table = Table(title=Text(terminal.clean(title)), title_justify="left", title_style="bold", box=style, expand=False)
    for number, head in enumerate(heads):
        table.add_column(Text(terminal.clean(head)), overflow="fold", style="" if number else "bold")
    for row in rows:
        table.add_row(*(Text(terminal.clean(cell)) for cell in row))
    return table


def _pod(pod: PodRun | None) -> str:
    if pod is None:
        return "no such pod"
    times = f"{moment(pod.to_scheduled)} {moment(pod.to_running)}"
    trouble = "" if state(pod) in ("running", "succeeded") else f"  {state(pod)}"
    return f"{times}  {where(pod)}{trouble}"
