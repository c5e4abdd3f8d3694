"""Results as plain data for JSON: one way for all classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
"""Version of the documents that commands print; a key that is removed or changes its meaning raises it."""


def to_json(value: Any) -> Any:
    """What ``json.dumps`` can write: objects by their fields, enums by value, paths and times as text, sets sorted.

    A class whose JSON is not just its fields says so in ``as_json``; what that returns is converted like the rest.

    Raises:
        TypeError: the value holds something else.
    """
    if isinstance(value, Enum):
        return to_json(value.value)
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(to_json(key)): to_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(inner) for inner in value]
    if isinstance(value, set | frozenset):
        return sorted(to_json(inner) for inner in value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "as_json"):
        return to_json(value.as_json())
    if dataclasses.is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} is not data")


def document(value: Any) -> Any:
    """The document that a command prints: an object says its ``schemaVersion``, a list stays a list."""
    data = to_json(value)
    return {"schemaVersion": SCHEMA_VERSION, **data} if isinstance(data, dict) else data
