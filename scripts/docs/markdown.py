"""Parts of generated Markdown pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~^=!&])")
"""Characters that Python-Markdown or its extensions may read as markup."""


def plain(text: str) -> str:
    """Text on one line in which no character is markup."""
    return _escaped(" ".join(text.split()))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"&#{ord(match[1])};", text)


def prose(text: str) -> str:
    """Text on one line that may have code in single or double backticks, and no other markup."""
    parts = re.split(r"``?([^`]+)``?", " ".join(text.split()))
    return "".join(
        f"<code>{_escaped(part)}</code>" if number % 2 else _escaped(part) for number, part in enumerate(parts)
    )


def code(text: str, language: str = "text") -> str:
    """A block of code, also if the text has fences."""
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", text)), 3)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def inline(text: str) -> str:
    """Code within a line."""
    return f"<code>{plain(text)}</code>" if text else ""


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells in Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def link(text: str, target: str) -> str:
    """A link whose text is not markup."""
    return f"[{plain(text)}]({target})"


def page(title: str, *blocks: str, heading: str = "") -> str:
    """A page: ``title`` for the browser and search engines, ``heading`` (default: the title) above the blocks."""
    short = " ".join(title.split())
    return (
        f"---\ntitle: {json.dumps(short, ensure_ascii=False)}\n---\n\n"
        + "\n\n".join([f"# {plain(heading or title)}", *(block for block in blocks if block)])
        + "\n"
    )
