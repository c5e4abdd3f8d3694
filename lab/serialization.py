"""Conversion of results to plain data for JSON, and YAML to data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
"""Version of the documents that commands print; raise it when a key is removed or changes its meaning."""


def to_json(value: Any) -> Any:
    """Data for ``json.dumps``: objects by their fields, enums by value, paths and times as text, sets sorted.

    A class whose JSON differs from its fields defines ``as_json``; its result is converted too. Raises TypeError for
    other types.
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


def yaml_documents(text: str) -> list[Any]:
    """The YAML documents in a text that are not empty. Raises yaml.YAMLError.

    libyaml reads them where PyYAML has it: PyYAML's own loader takes seconds for a chart's CRDs.
    """
    import yaml

    return [doc for doc in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if doc]


def document(value: Any) -> Any:
    """The JSON document that a command prints; objects get ``schemaVersion``."""
    data = to_json(value)
    return {"schemaVersion": SCHEMA_VERSION, **data} if isinstance(data, dict) else data
