"""Documents that commands print with ``--json``, checked against their published schemas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from lab.cli.documents import DOCUMENTS, json_schema


@cache
def validator(command: str) -> Draft202012Validator:
    return Draft202012Validator(json_schema(command))


def check(words: Sequence[str], text: str) -> None:
    """Fail if what ``kailab WORDS`` printed is not by its schema; a watch prints a document in each line."""
    command = next((c for c in (" ".join(words[:2]), words[0]) if c in DOCUMENTS), "") if words else ""
    if "--json" not in words or not text or not command:
        return
    for document in map(json.loads, text.splitlines() if "--watch" in words else [text]):
        wrong = [f"{error.json_path}: {error.message}" for error in _causes(validator(command), document)]
        assert not wrong, f"kailab {' '.join(words)}: {wrong[:9]}"


def _causes(schema: Draft202012Validator, document: Any) -> list[Any]:
    """The errors; of a choice of types those of each, as the choice alone says nothing."""
    return [inner for error in schema.iter_errors(document) for inner in (error.context or (error,))]
