"""Text blocks on a rich console: headings, columns with a hanging last one, lines to be pasted."""

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

_LAST = 24
"""Cells below which a last column is no longer folded into its column."""


class TextWriter:
    """Writes blocks of text to one stream.

    Args:
        console: where to; made for stdout or stderr when None.
        stderr: write to stderr.
    """

    def __init__(self, console: Console | None = None, *, stderr: bool = False) -> None:
        if console is None:
            from rich.console import Console

            stream = sys.stderr if stderr else sys.stdout
            console = Console(file=stream, highlight=False, emoji=False, markup=False)
        self.console = console
        self.words = Terminal(console.encoding)

    def line(self, *cells: Cell, indent: int = 0) -> None:
        """One line of cells, never folded or cut: commands and paths in it can be copied."""
        self._print(self._text(*cells, indent=indent))

    def blank(self) -> None:
        """An empty line."""
        self._print(self._text())

    def heading(self, text: str, note: str = "") -> None:
        self.blank()
        self.line((text, "bold"), (f"  {note}" if note else "", "dim"))

    def sentence(self, sign: Cell, text: Cell, indent: int = 0) -> None:
        """A paragraph behind a sign, folded under itself."""
        self.columns([[sign, text]], indent=indent, gap=1)

    def columns(self, rows: Sequence[Sequence[Cell]], indent: int = 1, gap: int = 2) -> None:
        """Aligned rows; on a terminal the last column folds under itself, in a pipe it stays on its line."""
        cells = [[self._text(cell) for cell in row] for row in rows]
        count = max((len(row) for row in cells), default=0)
        widths = [max((row[n].cell_len for row in cells if len(row) > n + 1), default=0) for n in range(count)]
        for row in cells:
            start = self._text(indent=indent)
            for n, cell in enumerate(row[:-1]):
                cell.pad_right(widths[n] + gap - cell.cell_len)
                start.append_text(cell)
            room = self.console.width - start.cell_len
            folded = self.console.is_terminal and room >= _LAST
            parts = row[-1].wrap(self.console, room) if folded else [row[-1]]
            margin = " " * start.cell_len
            for number, part in enumerate(parts or [self._text()]):
                part.rstrip()
                line = start if number == 0 else self._text(margin, keep=True)
                self._print(line.append_text(part))

    def _text(self, *cells: Cell, indent: int = 0, keep: bool = False) -> Text:
        from rich.text import Text

        text = Text(" " * indent)
        for cell in cells:
            words, style = (cell, "") if isinstance(cell, str) else cell
            text.append(words if keep else self._clean(words), style or None)
        return text

    def _clean(self, words: str) -> str:
        trailing = " " * (len(words) - len(words.rstrip(" ")))
        return self.words.clean(words, indent=True) + trailing if words.strip() else words

    def _print(self, text: Text) -> None:
        text.rstrip()
        self.console.print(text, soft_wrap=True)
