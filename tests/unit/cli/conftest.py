"""Every test of a command."""

from __future__ import annotations

import dataclasses
from typing import Any

import jsonschema
import pytest

from lab.cli import options
from lab.json_schema import document_schema


@pytest.fixture(autouse=True)
def json_by_its_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command prints with ``--json`` is as the annotations of its class say."""
    made = options.document

    def checked(value: Any) -> Any:
        document = made(value)
        for one, data in zip(value, document, strict=True) if isinstance(value, tuple) else [(value, document)]:
            if dataclasses.is_dataclass(one):
                schema = document_schema(type(one), "")
                del schema["if"], schema["then"]  # an item of a list has no schemaVersion
                jsonschema.validate(data, schema)
        return document

    monkeypatch.setattr(options, "document", checked)
