"""Changing one key of a TOML file and leaving every other byte as it is."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from lab.errors import HostNotReady


def value_of(text: str, table: str, key: str) -> Any:
    """A key's value, or None. ``table`` is dotted; the top level is the empty text.

    Raises:
        HostNotReady: the text is not TOML.
    """
    try:
        here: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise HostNotReady(f"it is not TOML: {error}", fix="correct the file") from error
    for word in filter(None, table.split(".")):
        here = here.get(word, {}) if isinstance(here, dict) else {}
    return here.get(key) if isinstance(here, dict) else None


def with_value(text: str, table: str, key: str, value: bool | str | list[str]) -> str:
    """The text with ``key`` of ``table`` set: in its own line, else below its table's head, else at the end.

    Comments, order and spacing of everything else stay. JSON writes booleans, texts and lists of texts as TOML does.

    Raises:
        HostNotReady: the text is not TOML, or holds the key in a way that this cannot change.
    """
    if value_of(text, table, key) == value:
        return text
    line = f"{key} = {json.dumps(value)}"
    lines = text.splitlines(keepends=True)
    start, end = _body(lines, table)
    if start is None:
        gap = "" if not text or text.endswith("\n") else "\n"
        changed = f"{text}{gap}\n[{table}]\n{line}\n" if table else f"{line}\n{text}"
        return _checked(changed, table, key, value)
    for number in range(start, end):
        if re.match(rf"\s*{re.escape(key)}\s*=", lines[number]):
            # a list may go on over several lines
            last = next(n for n in range(number, end) if _whole("".join(lines[number : n + 1])) or n == end - 1)
            lines[number : last + 1] = [f"{line}\n"]
            break
    else:
        if start and not lines[start - 1].endswith("\n"):
            lines[start - 1] += "\n"
        lines.insert(start, f"{line}\n")
    return _checked("".join(lines), table, key, value)


def _body(lines: list[str], table: str) -> tuple[int | None, int]:
    """First line of a table and the line after its last; None where the text has no such table."""
    heads = [(n, m[1].replace('"', "")) for n, line in enumerate(lines) if (m := re.match(r"\s*\[([^\[\]]+)\]", line))]
    if not table:
        return 0, heads[0][0] if heads else len(lines)
    for place, (number, name) in enumerate(heads):
        if name.strip() == table:
            return number + 1, heads[place + 1][0] if place + 1 < len(heads) else len(lines)
    return None, 0


def _whole(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _checked(text: str, table: str, key: str, value: object) -> str:
    if value_of(text, table, key) != value:
        raise HostNotReady(
            f"[{table or 'top'}] {key} cannot be set without rewriting the file",
            fix=f"set it by hand: {key} = {json.dumps(value)}",
        )
    return text
