"""Reads and sets one key of a TOML file, keeping comments, order and spacing."""

from __future__ import annotations

import tomllib
from typing import Any

from lab.errors import HostNotReady


def value_of(text: str, table: str, key: str) -> Any:
    """Value of a key, or None; ``table`` is dotted, and empty for the top level. Raises HostNotReady for non-TOML."""
    try:
        here: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise HostNotReady(f"it is not TOML: {error}", fix="correct the file") from error
    for word in filter(None, table.split(".")):
        here = here.get(word, {}) if isinstance(here, dict) else {}
    return here.get(key) if isinstance(here, dict) else None


def with_value(text: str, table: str, key: str, value: bool | str | list[str]) -> str:
    """The text with a key set. Raises HostNotReady if the text is not TOML or ``table`` is not a table in it."""
    if value_of(text, table, key) == value:
        return text
    import tomlkit

    document = tomlkit.parse(text)
    here: Any = document
    for word in filter(None, table.split(".")):
        here = here.setdefault(word, tomlkit.table()) if isinstance(here, dict) else None
    if not isinstance(here, dict):
        raise HostNotReady(f"{key} cannot be set: {table} is not a table", fix="correct the file")
    here[key] = value
    return tomlkit.dumps(document)
