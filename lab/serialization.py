"""Conversion of results to plain data for JSON, and YAML to data."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import Enum
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

SCHEMA_VERSION = 1
"""Version of the documents that commands print; raise it when a key is removed or changes its meaning."""


def to_json(value: Any) -> Any:
    """Data for ``json.dumps``: objects by their fields, enums by value, paths and times as text, sets sorted.

    A class whose JSON differs from its fields lists the keys in ``JSON``; see ``members``. Raises TypeError for other
    types.
    """
    if isinstance(value, Enum):
        return to_json(value.value)
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(to_json(key)): to_json(inner) for key, inner in value.items()}
    if hasattr(value, "JSON"):
        return dict(_pairs(value))
    if isinstance(value, list | tuple):
        return [to_json(inner) for inner in value]
    if isinstance(value, set | frozenset):
        return sorted(to_json(inner) for inner in value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, re.Pattern):
        return value.pattern
    if dataclasses.is_dataclass(value):
        return dict(_pairs(value))
    raise TypeError(f"{type(value).__name__} is not data")


class JsonMember(NamedTuple):
    """One key of an object, and the attribute that it shows; ``spread``: the keys of that attribute instead."""

    key: str
    attribute: str
    spread: bool
    omitted_if_empty: bool


@cache
def members(kind: type) -> tuple[JsonMember, ...]:
    """The keys of a class: its fields, or the words of ``JSON``.

    A word is the name of a field or a property; ``key=name`` where the key differs, with a path such as
    ``record.seconds``; ``name?`` is omitted if empty; ``*name`` means the keys of that attribute, ``*`` all fields.
    Of words with the same key the last one counts.
    """
    words: list[str] = []
    for word in getattr(kind, "JSON", "*").split():
        words += [field.name for field in dataclasses.fields(kind)] if word == "*" else [word]
    found = (re.fullmatch(r"(\*?)(?:(\w+)=)?([\w.]+)(\??)", word) for word in words)
    by_key = {m[2] or m[3]: JsonMember(m[2] or m[3], m[3], bool(m[1]), bool(m[4])) for m in found if m}
    return tuple(by_key.values())


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    for member in members(value.__class__):
        inner = attrgetter(member.attribute)(value)
        if member.spread:
            yield from to_json(inner).items()
        elif inner or not member.omitted_if_empty:
            yield member.key, to_json(inner)


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
