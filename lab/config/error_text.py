"""Pydantic's errors in terms of the lab file."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic_core import ErrorDetails

from lab.config.base import Model
from lab.config.models import type_at
from lab.config.rules import RULE
from lab.text import perhaps

_MUST = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "path_type": "must be a path",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "greater_than_equal": "must be at least {ge:g}",
    "greater_than": "must be more than {gt:g}",
    "less_than_equal": "must be at most {le:g}",
    "literal_error": "must be {expected}",
    "too_short": "must have at least one item",
    "string_too_long": "must have at most {max_length} characters",
}


def explain(error: ErrorDetails) -> str:
    """An error as text that follows the field's path."""
    kind, loc, value = error["type"], error["loc"], error["input"]
    context: dict[str, Any] = error.get("ctx") or {}
    if kind == RULE:
        return str(context["what"])
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        model = type_at(loc[:-1])
        fields = model.model_fields if isinstance(model, type) and issubclass(model, Model) else {}
        known = [field.alias or name for name, field in fields.items()]
        return f"unknown key{perhaps(str(loc[-1]), known) or '; known keys: ' + ', '.join(known)}"
    if value is None or kind == "string_too_short":
        return "is empty; give it a value or remove the key"
    if kind == "string_type":
        quotes = "" if isinstance(value, list | dict) else "; put it in quotes"
        return f"must be text, not {shown(value)}{quotes}"
    must = _MUST.get(kind, "{message}").format(message=error["msg"], **context)
    near = ""
    if kind == "literal_error" and isinstance(value, str):
        near = perhaps(value, re.findall(r"'([^']*)'", str(context["expected"])))
    return f"{must}, not {shown(value)}{near}"


def shown(value: object) -> str:
    """A value as YAML, cut to about 60 characters."""
    quoted = isinstance(value, str) and value.isprintable()
    text = f"'{value}'" if quoted else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:56]} ..."
