"""JSON Schema of the documents that ``lab.serialization`` makes, from the annotations of their classes."""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from collections.abc import Collection, Mapping, Set
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from lab.serialization import SCHEMA_VERSION, members

_TEXT = {"type": "string"}
_SCALARS: Mapping[Any, dict[str, Any]] = {
    str: _TEXT,
    Path: _TEXT,
    re.Pattern: _TEXT,
    datetime: {**_TEXT, "format": "date-time"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
}


def document_schema(annotation: Any, title: str) -> dict[str, Any]:
    """The schema of a document of this type, such as a dataclass, a TypedDict or ``tuple[Row, ...]``.

    Raises TypeError for a type that has no JSON.
    """
    definitions: dict[str, Any] = {}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **_Schemas(definitions).of(annotation),
        "if": {"type": "object"},
        "then": {"properties": {"schemaVersion": {"const": SCHEMA_VERSION}}, "required": ["schemaVersion"]},
        "$defs": dict(sorted(definitions.items())),
    }


@dataclasses.dataclass(frozen=True)
class _Schemas:
    definitions: dict[str, Any]

    def of(self, annotation: Any) -> dict[str, Any]:
        origin, args = get_origin(annotation), get_args(annotation)
        if isinstance(annotation, TypeVar):
            return self.of(annotation.__bound__ or Any)
        if origin is Literal:
            return {"enum": list(args)}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(one) for one in args]}
        kind = origin or annotation
        if kind in _SCALARS:
            return dict(_SCALARS[kind])
        if issubclass(kind, Enum):
            return {"enum": [one.value for one in kind]}
        if is_typeddict(kind) or hasattr(kind, "JSON") or dataclasses.is_dataclass(kind):
            return self._object(kind)
        if issubclass(kind, Mapping):
            return {"type": "object", "additionalProperties": self.of(args[1]) if args else {}}
        if issubclass(kind, tuple) and args and args[-1] is not ...:
            return {"type": "array", "prefixItems": [self.of(one) for one in args], "items": False}
        if issubclass(kind, Collection):
            more = {"uniqueItems": True} if issubclass(kind, Set) else {}
            return {"type": "array", "items": self.of(args[0]) if args else {}, **more}
        raise TypeError(f"{annotation} has no JSON Schema")

    def _object(self, kind: type) -> dict[str, Any]:
        name = kind.__name__
        if name not in self.definitions:
            self.definitions[name] = {}  # a class may contain itself
            properties, required = self._properties(kind)
            about = {"description": text} if (text := _first_sentence(kind)) else {}
            self.definitions[name] = {"type": "object", **about, "properties": properties, "required": required}
        return {"$ref": f"#/$defs/{name}"}

    def _properties(self, kind: Any) -> tuple[dict[str, Any], list[str]]:
        if is_typeddict(kind):
            return {key: self.of(hint) for key, hint in get_type_hints(kind).items()}, sorted(kind.__required_keys__)
        properties: dict[str, Any] = {}
        required: list[str] = []
        for member in members(kind):
            hint = _type_of(kind, member.attribute)
            if member.spread:
                inner, needed = self._properties(get_origin(hint) or hint)
                properties |= inner
                required += needed
            else:
                properties[member.key] = self.of(hint)
                required += [] if member.omitted_if_empty else [member.key]
        return properties, required


def _type_of(kind: type, attribute: str) -> Any:
    """The annotation of a field or a property; ``a.b`` is b of the type of a."""
    name, _, rest = attribute.partition(".")
    found = inspect.getattr_static(kind, name, None)
    if isinstance(found, property) and found.fget is not None:
        hint = get_type_hints(found.fget)["return"]
    else:
        hint = get_type_hints(kind)[name]
    return _type_of(get_origin(hint) or hint, rest) if rest else hint


def _first_sentence(kind: type) -> str:
    """Of the docstring, unless the dataclass wrote it."""
    text = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    return "" if text.startswith(f"{kind.__name__}(") else re.split(r"(?<=\.)\s", text)[0]
