"""Serialization of results to JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from lab.serialization import document, to_json, yaml_documents


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    path: Path
    colours: frozenset[str] = frozenset({"b", "a"})


@dataclass(frozen=True)
class Renamed:
    name: str
    inner: Inner

    JSON = "lab=name inner"


@dataclass
class Outer:
    inner: Inner
    at: datetime = datetime(2024, 1, 2, tzinfo=UTC)
    colour: Colour = Colour.RED
    by: dict[Any, tuple[int, ...]] = field(default_factory=lambda: {Colour.RED: (1, 2), 3: ()})
    none: None = None


def test_values_and_dataclasses_become_plain_data() -> None:
    assert json.loads(json.dumps(to_json([Outer(Inner(Path("/x")))]))) == [
        {
            "inner": {"path": "/x", "colours": ["a", "b"]},
            "at": "2024-01-02T00:00:00+00:00",
            "colour": "red",
            "by": {"red": [1, 2], "3": []},
            "none": None,
        }
    ]


def test_keys_that_a_class_lists_are_used() -> None:
    assert to_json({"x": Renamed("demo", Inner(Path("y")))})["x"] == {
        "lab": "demo",
        "inner": {"path": "y", "colours": ["a", "b"]},
    }


def test_unsupported_type_is_refused() -> None:
    with pytest.raises(TypeError, match="object is not data"):
        to_json({"x": object()})


def test_document_has_a_schema_version_and_a_list_has_none() -> None:
    assert document(Renamed("demo", Inner(Path("y"))))["schemaVersion"] == 1
    assert document((1, 2)) == [1, 2]


def test_yaml_documents_are_read_without_empty_ones() -> None:
    assert yaml_documents("---\na: 1\n---\n---\n- 2\n") == [{"a": 1}, [2]]
