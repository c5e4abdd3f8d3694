"""The lab file that 'lab init' writes: every key explained, loading to exactly the profile it was made from.

Made from the models, so it cannot go stale. A line ``#key: value`` is an option at its default (take the #
away to change it); a line ``# text`` explains.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from lab.config.base import Model
from lab.config.loader import load_profile
from lab.config.models import LabSpec

_WIDTH = 108
_EXAMPLE_NAMES = {"queues": "team-a", "tenants": "team-a"}


def init_text(profile: str) -> str:
    """A commented lab file made from a shipped profile.

    Raises:
        SpecError: there is no profile of that name.
    """
    lines = [
        f"# A kailab lab file, made by 'lab init' from the profile '{profile}'.",
        "# A line '#key: value' is an option at its default: take the # away to change it.",
        "# Over the file goes the environment (KAILAB_SET_gpu__perNode=4), over both --set gpu.perNode=4.",
        "# For completion in an editor: lab schema > lab.schema.json, and as the first line here the comment",
        "# 'yaml-language-server: $schema=lab.schema.json'.",
        *_top(load_profile(profile, (), {})),
    ]
    return "\n".join(lines) + "\n"


def _top(spec: LabSpec) -> Iterator[str]:
    for name, field in LabSpec.model_fields.items():
        key, value = field.alias or name, getattr(spec, name)
        yield ""
        yield from _prose(field.description, 0)
        if isinstance(value, Model):
            yield f"{key}:"
            live = value.model_fields_set or {next(iter(type(value).model_fields))}
            for line in _mapping(value, live, explained=True):
                yield f"  {line}"
        elif key in _EXAMPLE_NAMES:
            yield from _list(key, field, value)
        else:
            yield from _option(key, value, live=name in spec.model_fields_set)


def _list(key: str, field: FieldInfo, items: tuple[Model, ...]) -> Iterator[str]:
    """A list of mappings, explained at its first item. Instead of an empty one: an example, commented out."""
    if items:
        yield f"{key}:"
        for at, item in enumerate(items):
            yield from _item(item, explained=at == 0)
        return
    assert field.annotation is not None
    kind = field.annotation.__args__[0]
    yield f"#{key}:"
    for line in _item(kind(name=_EXAMPLE_NAMES[key]), explained=True):
        # Explanations keep one space after the #, options get none: that tells them apart.
        yield (re.sub(r"^ *# ", "# ", line) if re.match(r"^ *# ", line) else "#" + re.sub(r"^( *)#", r"\1", line))


def _item(item: Model, *, explained: bool) -> Iterator[str]:
    lines = list(_mapping(item, item.model_fields_set, explained=explained))
    first = next(at for at, line in enumerate(lines) if not line.startswith("#"))
    for at, line in enumerate(lines):
        yield ("  - " if at == first else "  " if at < first else "    ") + line


def _mapping(model: Model, live: set[str], *, explained: bool) -> Iterator[str]:
    told: set[Any] = set()
    for name, field in type(model).model_fields.items():
        key, value = field.alias or name, getattr(model, name)
        if explained:
            yield from _prose(field.description, 4)
        if isinstance(value, tuple) and value and isinstance(value[0], Model):
            yield f"{key}:"
            for at, item in enumerate(value):
                yield from _item(item, explained=explained and at == 0)
        elif explained or name in live:
            if explained and field.annotation not in told:
                told.add(field.annotation)
                yield from _inner(field, 4)
            yield from _option(key, value, live=name in live)


def _inner(field: FieldInfo, indent: int) -> Iterator[str]:
    """A line for each key of the mapping, or of the items of the list, that the field holds on one line."""
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
    return list(value) if isinstance(value, tuple) else value if value is None else _scalar(value)


def _scalar(value: object) -> Any:
    return value if isinstance(value, bool | int | float | str | dict) else str(value)


def _flow(value: Any) -> str:
    """A value as YAML on one line, texts without quotes where YAML allows."""
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
