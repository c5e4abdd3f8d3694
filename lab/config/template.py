"""The lab file that 'kailab init' writes from the models: each key explained, with a profile's or a cluster's values.

A line ``#key: value`` is an option at its default (remove the # to change it); a line ``# text`` is a comment.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from lab.config.base import Model
from lab.config.error_text import explain
from lab.config.loader import errors_in, load_profile
from lab.config.models import LabSpec
from lab.config.rules import prefix
from lab.config.schema import SCHEMA_FILE

_WIDTH = 108
_EXAMPLE_NAMES = {"queues": "team-a", "tenants": "team-a"}


def init_text(profile: str, name: str | None = None) -> str:
    """A commented lab file with the values of a shipped profile. Raises SpecError for an unknown profile."""
    spec = load_profile(profile, (f"name={name}",) if name else (), {})
    return _file(f"# A kailab lab file, written by 'kailab init' from the profile '{profile}'.", _top(spec))


def existing_text(values: Mapping[str, Any], found: Mapping[str, Sequence[str]]) -> str:
    """A commented lab file for a cluster that exists.

    Args:
        values: the content of the file.
        found: section of the file → what the cluster has, a comment each.

    Raises SpecError for values that a lab file cannot have, such as a name with a dot.
    """
    try:
        spec = LabSpec.model_validate(values, by_alias=True, by_name=False)
    except ValidationError as error:
        lines = [f"{prefix(one['loc'])}{explain(one)}" for one in error.errors(include_url=False)]
        raise errors_in(f"{len(lines)} values cannot be in a lab file", lines) from None
    head = (
        f"# A kailab lab file, written by kailab init --existing for the cluster of context '{spec.cluster.context}'."
    )
    return _file(head, _top(spec, found))


def _file(head: str, lines: Iterator[str]) -> str:
    about = (
        f"# yaml-language-server: $schema={SCHEMA_FILE}",
        head,
        "# A line '#key: value' is an option at its default: remove the # to change it.",
        "# The environment (KAILAB_SET_gpu__perNode=4) overrides the file, --set gpu.perNode=4 overrides both.",
    )
    return "\n".join([*about, *lines]) + "\n"


def _top(spec: LabSpec, found: Mapping[str, Sequence[str]] | None = None) -> Iterator[str]:
    for name, field in LabSpec.model_fields.items():
        key, value = field.alias or name, getattr(spec, name)
        yield ""
        yield from _prose(field.description, 0)
        for text in (found or {}).get(key, ()):
            yield from _prose(f"Found: {text}", 0)
        if isinstance(value, Model):
            live = value.model_fields_set or {next(iter(type(value).model_fields))}
            # Of a cluster that exists, other keys of these sections have no effect.
            of_kind = not spec.cluster.own and key in ("cluster", "gpu")
            yield f"{key}:"
            for line in _mapping(value, live, explained=True, hidden=_unset(value) if of_kind else ()):
                yield f"  {line}"
        elif key in _EXAMPLE_NAMES:
            yield from _list(key, field, value)
        else:
            yield from _option(key, value, live=name in spec.model_fields_set)


def _unset(model: Model) -> set[str]:
    return set(type(model).model_fields) - model.model_fields_set


def _list(key: str, field: FieldInfo, items: tuple[Model, ...]) -> Iterator[str]:
    """A list of mappings with comments at the first item; an empty list becomes a commented-out example."""
    if items:
        yield f"{key}:"
        for at, item in enumerate(items):
            yield from _item(item, explained=at == 0)
        return
    assert field.annotation is not None
    kind = field.annotation.__args__[0]
    yield f"#{key}:"
    for line in _item(kind(name=_EXAMPLE_NAMES[key]), explained=True):
        # comments keep one space after the #, options none
        yield (re.sub(r"^ *# ", "# ", line) if re.match(r"^ *# ", line) else "#" + re.sub(r"^( *)#", r"\1", line))


def _item(item: Model, *, explained: bool) -> Iterator[str]:
    lines = list(_mapping(item, item.model_fields_set, explained=explained))
    first = next(at for at, line in enumerate(lines) if not line.startswith("#"))
    for at, line in enumerate(lines):
        yield ("  - " if at == first else "  " if at < first else "    ") + line


def _mapping(model: Model, live: set[str], *, explained: bool, hidden: Collection[str] = ()) -> Iterator[str]:
    explained_types: set[Any] = set()
    for name, field in type(model).model_fields.items():
        if name in hidden:
            continue
        key, value = field.alias or name, getattr(model, name)
        if explained:
            yield from _prose(field.description, 4)
        if isinstance(value, tuple) and value and isinstance(value[0], Model):
            yield f"{key}:"
            for at, item in enumerate(value):
                yield from _item(item, explained=explained and at == 0)
        elif explained or name in live:
            if explained and field.annotation not in explained_types:
                explained_types.add(field.annotation)
                yield from _inner(field, 4)
            yield from _option(key, value, live=name in live)


def _inner(field: FieldInfo, indent: int) -> Iterator[str]:
    """A comment for each key of the field's mapping, or of its list's items."""
    inside: Any = field.annotation
    if getattr(inside, "__origin__", None) is tuple:
        inside = inside.__args__[0]
    if isinstance(inside, type) and issubclass(inside, Model):
        for name, inner in inside.model_fields.items():
            yield from _prose(f"- {inner.alias or name}: {inner.description}", indent)


def _option(key: str, value: object, *, live: bool) -> Iterator[str]:
    yield f"{'' if live else '#'}{key}: {_flow(_plain(value))}"


def _plain(value: object) -> Any:
    if isinstance(value, Model):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, tuple):
        return list(value)
    return value if value is None or isinstance(value, bool | int | float | str | dict) else str(value)


def _flow(value: Any) -> str:
    """A value as YAML on one line, with quotes only where YAML needs them."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(inner) for inner in value) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w ./-]*[\w]|\d+\.\d+\.\d+", value):
        return value if value.lower() not in {"yes", "no", "on", "off", "true", "false", "null"} else f'"{value}"'
    return json.dumps(value, ensure_ascii=False)


def _prose(text: str | None, indent: int) -> Iterator[str]:
    for line in textwrap.wrap(text or "", _WIDTH - indent, break_on_hyphens=False):
        yield f"# {line}"
