"""The page of the site with every key of the lab file, from its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lab.config import schema
from scripts.docs.markdown import inline, page, plain, prose, table

Json = Mapping[str, Any]

_ABOUT = (
    "Every key, its type, default and meaning, from the [JSON Schema](../lab.schema.json) that `kailab schema` prints."
    " How values are ordered and overridden is in [Lab file](lab-file.md)."
)


def lab_file_page() -> dict[str, str]:
    """The page by path."""
    document = schema()
    sections = [
        f"## {path or 'Top level'}\n\n{prose(one.get('description', ''))}\n\n"
        + table(("key", "type", "default", "meaning"), rows)
        for path, one, rows in _sections(document, document, "")
    ]
    return {"reference/lab-file-keys.md": page("Keys of the lab file", _ABOUT, *sections)}


def _sections(root: Json, one: Json, path: str) -> Iterator[tuple[str, Json, list[tuple[str, str, str, str]]]]:
    """Each mapping of the schema with its path, and a row for each of its keys that is not a mapping itself."""
    inner: list[tuple[str, Json]] = []
    rows: list[tuple[str, str, str, str]] = []
    for name, field in one.get("properties", {}).items():
        place = f"{path}.{name}" if path else name
        if (found := _mapping(root, field)) is not None:
            inner.append((f"{place}[]" if "items" in field else place, found))
        else:
            rows.append(
                (inline(name), inline(_type(root, field)), _default(field), prose(field.get("description", "")))
            )
    if rows:
        yield path, one if path else {}, rows
    for place, found in inner:
        yield from _sections(root, found, place)


def _mapping(root: Json, field: Json) -> Json | None:
    """The keys of a section, or of the items of a list of sections."""
    target = _resolved(root, field.get("items", field))
    return target if target.get("properties") else None


def _resolved(root: Json, field: Json) -> Json:
    if "$ref" in field:
        found: Json = root["$defs"][field["$ref"].rpartition("/")[2]]
        return found
    for one in field.get("anyOf", ()):
        if "$ref" in one:
            return _resolved(root, one)
    return field


def _type(root: Json, field: Json) -> str:
    if "enum" in field:
        return ", ".join(str(one) for one in field["enum"])
    if "const" in field:
        return str(field["const"])
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(root, one) for one in field["anyOf"] if one.get("type") != "null"))
    if field.get("type") == "array":
        return f"list of {_type(root, field.get('items', {}))}"
    if field.get("type") == "object":
        return "mapping"
    return str(field.get("type", _resolved(root, field).get("type", "any")))


def _default(field: Json) -> str:
    value = field.get("default")
    return "" if value is None else plain(value) if isinstance(value, str) else inline(json.dumps(value))
