"""Two tenants side by side on a terminal: figures, pods, what was written differently. Plain lines in a pipe."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.compare.model import Comparison, PodRun
from lab.compare.text import figures, moment, order_of_starts, pairs, state, where
from lab.ui.terminal import Terminal

_CALM = ("running", "succeeded")


def render_comparison(comparison: Comparison, console: Console | None = None, width: int | None = None) -> None:
    """Tables on a terminal, or wherever a width was asked for; plain lines elsewhere.

    Args:
        comparison: what is told.
        console: where to.
        width: columns; None takes the terminal's.
    """
    console = console or Console(highlight=False, emoji=False, markup=False)
    words = Terminal(console.encoding)
    if width is None and not console.is_terminal:
        for line in comparison_lines(comparison):
            console.print(words.clean(line, indent=True), soft_wrap=True, markup=False, highlight=False)
        return
    for table in _tables(comparison, words):
        table.width = width
        console.print(table, width=width)
    for line in _below(comparison):
        console.print(words.clean(line, indent=True), width=width, markup=False, highlight=False)


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Everything as plain lines, one fact each."""
    a, b = comparison.a, comparison.b
    yield f"A {a.tenant}: {a.scheduler}; B {b.tenant}: {b.scheduler}; order of runs: {comparison.order}"
    for figure in figures(comparison):
        note = f" ({figure.note})" if figure.note else ""
        yield f"{figure.name}{note}: A {figure.a}; B {figure.b}"
    for number in range(1, comparison.rounds + 1):
        for pair in pairs(comparison, number):
            yield f"round {number}: {pair.lane}: A {_pod(pair.a)}; B {_pod(pair.b)}"
    for one in comparison.differences:
        of = f" of {', '.join(one.lanes)}" if one.lanes else ""
        yield f"{one.kind} {one.name}{of}: A {one.a or 'none'}; B {one.b or 'none'}"
    yield from _below(comparison)


def _below(comparison: Comparison) -> Iterator[str]:
    """What needs sentences: orders, pending pods with their reasons, notes, and how time was taken."""
    for number in range(1, comparison.rounds + 1):
        yield f"round {number}, order of starts: {order_of_starts(comparison, number)}"
    for run in comparison.runs:
        title = f"round {run.number}, {run.letter.upper()}"
        for pod in run.pending:
            yield f"{title}: {pod.lane} is pending{':' if pod.why else ', and no reason is found'}"
            yield from (f"  {line}" for line in pod.why)
        yield from (f"{title}: {note}" for note in run.notes)
    yield from comparison.told
    yield comparison.clock


def _tables(comparison: Comparison, words: Terminal) -> Iterator[Table]:
    heads = [f"{side.letter.upper()}  {side.tenant}" for side in comparison.sides]
    table = _table(f"Side by side in lab {comparison.lab}; order of runs: {comparison.order}", words, "", *heads)
    for figure in figures(comparison):
        _row(table, words, figure.name, figure.a, figure.b)
    yield table
    for number in range(1, comparison.rounds + 1):
        table = _table(f"Pods of round {number}: seconds to a node and to running, place, state", words, "pod", *heads)
        for pair in pairs(comparison, number):
            _row(table, words, pair.lane, _pod(pair.a), _pod(pair.b))
        yield table
    if comparison.differences:
        table = _table("What was written differently", words, "", *heads, "pods")
        for one in comparison.differences:
            _row(table, words, f"{one.kind} {one.name}", one.a or "none", one.b or "none", ", ".join(one.lanes))
        yield table


def _table(title: str, words: Terminal, *heads: str) -> Table:
    style = box.SIMPLE_HEAD if words.unicode else box.ASCII2
    table = Table(title=Text(words.clean(title)), title_justify="left", title_style="bold", box=style, expand=False)
    for number, head in enumerate(heads):
        table.add_column(Text(words.clean(head)), overflow="fold", style="" if number else "bold")
    return table


def _row(table: Table, words: Terminal, *cells: str) -> None:
    from rich.text import Text

    table.add_row(*(Text(words.clean(cell)) for cell in cells))


def _pod(pod: PodRun | None) -> str:
    if pod is None:
        return "no such pod"
    times = f"{moment(pod.to_scheduled)} {moment(pod.to_running)}"
    how = state(pod)
    return f"{times}  {where(pod)}{'' if how in _CALM else f'  {how}'}"
