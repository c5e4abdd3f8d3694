"""JSON Schemas of documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypedDict

import jsonschema
import pytest

from lab.cli.documents import DOCUMENTS, json_schema
from lab.explain.queue_explanation import UNITS
from lab.json_schema import document_schema
from lab.serialization import document, to_json
from tests.support.commands import commands

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "json.md"


class Colour(StrEnum):
    RED = "red"


class Note(TypedDict):
    text: str


@dataclass(frozen=True)
class Part:
    """A part. It has a number."""

    number: int
    made: datetime
    place: Path | None = None
    inner: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Whole:
    part: Part
    name: str
    colour: Colour
    kind: Literal["a", "b"]
    shares: Mapping[str, float]
    tags: frozenset[str] = frozenset()
    hidden: int = 1

    @property
    def notes(self) -> Sequence[Note]:
        return [{"text": "x"}]

    JSON = "*part title=name colour kind shares tags? notes"


WHOLE = Whole(Part(1, datetime(2026, 1, 2, tzinfo=UTC)), "w", Colour.RED, "a", {"gpu": 0.5})


def invalid(**changes: Any) -> bool:
    """Whether the document is refused with these keys changed; None: without the key."""
    data = {key: value for key, value in {**document(WHOLE), **changes}.items() if value is not None or key == "place"}
    return not jsonschema.Draft202012Validator(document_schema(Whole, "whole")).is_valid(data)


def test_schema_has_the_keys_and_types_of_the_document() -> None:
    assert not invalid()
    assert not invalid(place="/x", tags=["a"], more=1)
    assert invalid(number="1")
    assert invalid(number=None)
    assert invalid(title=None)
    assert invalid(colour="blue")
    assert invalid(kind="c")
    assert invalid(shares={"gpu": "0.5"})
    assert invalid(tags=["a", "a"])
    assert invalid(notes=[{}])
    assert invalid(inner=[{"number": 1}])
    assert invalid(place=3)
    assert invalid(schemaVersion=None)


@dataclass(frozen=True)
class Replaced:
    go: tuple[int, int]

    @property
    def version(self) -> str:
        return ".".join(map(str, self.go))

    JSON = "* go=version"


def test_the_last_word_of_a_key_counts() -> None:
    schema = document_schema(Replaced, "")["$defs"]["Replaced"]
    assert (schema["properties"], schema["required"]) == ({"go": {"type": "string"}}, ["go"])
    assert to_json(Replaced((1, 26))) == {"go": "1.26"}


def test_schema_has_the_first_sentence_of_a_docstring() -> None:
    definitions = document_schema(Whole, "whole")["$defs"]
    assert definitions["Part"]["description"] == "A part."
    assert "description" not in definitions["Whole"]


def test_type_without_json_is_refused() -> None:
    with pytest.raises(TypeError, match="has no JSON Schema"):
        document_schema(complex, "")


def test_every_command_with_json_has_a_schema() -> None:
    found = {" ".join(words) for words, one in commands() if any("--json" in param.opts for param in one.params)}
    assert found == set(DOCUMENTS)


@pytest.mark.parametrize("command", DOCUMENTS)
def test_schema_of_a_command_is_valid(command: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema(command))


def rows() -> Iterator[tuple[str, str]]:
    """Command and shape of each row of the page's table of commands."""
    for line in PAGE.read_text().partition("| command | shape |")[2].splitlines():
        if match := re.fullmatch(r"\| (`.*) \| (.*) \|", line):
            yield match[1], match[2]


def names(schema: Any) -> set[str]:
    """Keys and values that a schema names."""
    if isinstance(schema, Mapping):
        inner = set().union(*map(names, schema.values()))
        return inner | set(schema.get("properties", ())) | {str(one) for one in schema.get("enum", ())}
    return set().union(*map(names, schema)) if isinstance(schema, list) else set()


@pytest.mark.parametrize(("cell", "shape"), list(rows()), ids=lambda text: text[:40])
def test_page_names_keys_that_exist(cell: str, shape: str) -> None:
    """Every word in code of a row is a key or a value of the schema of its command."""
    command = cell.strip("`").partition(" --rules")[0].partition("`")[0]
    known = [name for name in DOCUMENTS if command == name or command.startswith(f"{name} ")] or ["lint"]
    written = set(re.findall(r"`(\w+)(?:\[\])?`", re.sub(r"\(as [^)]*\)|the same as `[^`]*`|\bas `[^`]*`", "", shape)))
    assert sorted(written - names(json_schema(max(known, key=len))) - set(UNITS)) == []
