"""Blocks of text on a rich console: headings, tables, paragraphs behind a sign, lines that can be copied."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.ui.terminal import Terminal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Cell = tuple[str, str] | str
"""Text, or text and its rich style."""

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red", "skip": "dim", "next": "cyan"}
"""Style of a sign."""

_LAST = 24
"""Width in cells below which the last column moves to lines of its own, except for short words."""
_SHORT = 12


class TextWriter:
    """Writes blocks of text to a console; without one, to stdout or stderr."""

    def __init__(self, console: Console | None = None, *, stderr: bool = False) -> None:
        if console is None:
            from rich.console import Console

            stream = sys.stderr if stderr else sys.stdout
            console = Console(file=stream, highlight=False, emoji=False, markup=False)
        self.console = console
        self.terminal = Terminal(console.encoding)

    def line(self, *cells: Cell, indent: int = 0) -> None:
        """Write one line, never wrapped or cut: commands and paths in it can be copied."""
        self._print(self._text(*cells, indent=indent))

    def blank(self) -> None:
        self._print(self._text())

    def heading(self, text: str, note: str = "") -> None:
        self.blank()
        self.line((text, "bold"), (f"  {note}" if note else "", "dim"))

    def sign(self, name: str) -> tuple[str, str]:
        """The sign ``ok``, ``warn``, ``fail``, ``skip`` or ``next`` in its style."""
        return self.terminal.glyph(name), STYLES[name]

    def marked(self, sign: str, text: Cell, indent: int = 0) -> None:
        """Write a paragraph behind a sign."""
        self.paragraph(self.sign(sign), text, indent)

    def next(self, action: str, indent: int = 0) -> None:
        """Write the next action."""
        self.marked("next", (f"next: {action}", STYLES["next"]), indent)

    def paragraph(self, sign: Cell, text: Cell, indent: int = 0) -> None:
        """Write a paragraph behind any sign, wrapped under itself."""
        self.columns([[sign, text]], indent=indent, gap=1)

    def items(self, lines: Sequence[str], sign: Cell, limit: int, indent: int = 1, more: str = "") -> None:
        """Write a paragraph per line behind a sign, ``limit`` lines at most; then how many are left out."""
        for line in lines[:limit]:
            self.paragraph(sign, line, indent)
        if len(lines) > limit:
            self.line((f"{self.terminal.ellipsis} and {len(lines) - limit} more{more}", "dim"), indent=indent)

    def prose(self, text: Cell, indent: int = 0) -> None:
        """Write a paragraph, which a terminal wraps."""
        self.columns([[text]], indent=indent)

    def columns(self, rows: Sequence[Sequence[Cell]], indent: int = 1, gap: int = 2) -> None:
        """Write aligned rows; a pipe never wraps.

        A terminal wraps the last column under itself, or, where little room is left for it, on lines of its own.
        """
        cells = [[self._text(cell) for cell in row] for row in rows]
        while cells and min(map(len, cells)) > 1 and not any(row[-1] for row in cells):
            cells = [row[:-1] for row in cells]
        count = max((len(row) for row in cells), default=0)
        widths = [max((row[n].cell_len for row in cells if len(row) > n + 1), default=0) for n in range(count)]
        for row in cells:
            start = self._text(indent=indent)
            for n, cell in enumerate(row[:-1]):
                cell.pad_right(widths[n] + gap - cell.cell_len)
                start.append_text(cell)
            room = self.console.width - start.cell_len
            if not self.console.is_terminal or row[-1].cell_len <= max(room, _SHORT if room < _LAST else 0):
                self._print(start.append_text(row[-1]))
                continue
            margin = self._text(indent=start.cell_len)
            if room < _LAST:
                self._print(start)
                start = self._text(indent=indent + 4)
                margin = start.copy()
                room = self.console.width - margin.cell_len
            for number, part in enumerate(row[-1].wrap(self.console, room)):
                part.rstrip()
                self._print((margin.copy() if number else start).append_text(part))

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[Cell]], indent: int = 1) -> None:
        """Write rows under dim headings."""
        self.columns([[(heading, "dim") for heading in headings], *rows], indent)

    def _text(self, *cells: Cell, indent: int = 0) -> Text:
        from rich.text import Text

        text = Text(" " * indent)
        for cell in cells:
            words, style = (cell, "") if isinstance(cell, str) else cell
            text.append(self._clean(words), style or None)
        return text

    def _clean(self, words: str) -> str:
        trailing = " " * (len(words) - len(words.rstrip(" ")))
        return self.terminal.clean(words, indent=True) + trailing if words.strip() else words

    def _print(self, text: Text) -> None:
        text.rstrip()
        self.console.print(text, soft_wrap=True)


def render_table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[Cell]], console: Console | None = None, note: str = ""
) -> None:
    """Write a title and a table; without rows only ``none``."""
    page = TextWriter(console)
    if title:
        page.line((title, "bold"), (f"  {note}" if note else "", "dim"))
    if not rows:
        page.line(("none", "dim"), indent=1)
    elif headings:
        page.table(headings, rows)
    else:
        page.columns(rows)


def fit(text: str, width: int, terminal: Terminal, style: str = "") -> Text:
    """``text`` in exactly ``width`` cells, cut at the end, or in the middle of a name, path or reference."""
    from rich.text import Text

    fitted = Text(terminal.clean(text), style)
    if fitted.cell_len > width:
        mark = terminal.ellipsis[: max(0, width)]
        tail = Text("" if " " in fitted.plain else fitted.plain[-(max(0, width - len(mark)) * 2 // 3) :], style)
        fitted.truncate(max(0, width - len(mark) - tail.cell_len))
        fitted.append(mark).append_text(tail)
    fitted.pad_right(max(0, width - fitted.cell_len))
    return fitted
