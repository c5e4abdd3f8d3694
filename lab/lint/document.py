"""The objects of a manifest file with the lines of their values."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from lab.config.document import line_at
from lab.errors import SpecError
from lab.lint.embedded import Block, blocks

Loc = tuple[str | int, ...]

STDIN = Path("-")
YAML_SUFFIXES = (".yaml", ".yml", ".json")
PROSE_SUFFIXES = (".md", ".markdown", ".txt", ".rst", ".adoc", ".sh", ".bash")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # libyaml's where PyYAML has it
    """A SafeLoader that keeps dates and a lone '=' as text, as kubectl does."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's name and type
        first: [(tag, regexp) for tag, regexp in resolvers if not tag.endswith((":timestamp", ":value"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping, and remember keys that occur twice."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        if len(set(keys)) < len(keys):
            self.__dict__.setdefault("twice", []).append(node)
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


@dataclass(frozen=True)
class ManifestDocument:
    """One YAML document of a file, or an item of a List in it."""

    file: str
    data: Any
    node: yaml.Node | None
    problem: str = ""
    """Why the text is not valid YAML; ``data`` is then empty."""
    place: tuple[int, int] = (1, 1)
    """Line and column of the problem."""
    twice: tuple[tuple[str, int, int], ...] = ()
    """Keys that occur twice in one mapping, with the lines of the first and the last."""
    values: str = ""
    """``file`` or ``set``: values of KAI's chart, a whole file or one key that a command sets."""
    version: str = ""
    """The chart's version in the command that sets the value; empty: not known."""
    template: bool = False
    """The text has ``{{`` and is a template, such as Helm's."""

    def line(self, loc: Loc) -> int:
        """Return the line of the key or item at ``loc``, or of its nearest existing parent."""
        return line_at(self.node, loc) if self.node is not None else self.place[0]


def read(file: Path) -> tuple[ManifestDocument, ...]:
    """Read the documents of a file. Raises SpecError: it is unreadable, or not YAML (with line and column)."""
    return _valid(documents(file))


def parse(text: str, file: str = "-") -> tuple[ManifestDocument, ...]:
    """Parse the documents of a text; the items of a List are documents of their own. Raises SpecError: not YAML."""
    return _valid(_parsed(text, file))


def documents(file: Path) -> tuple[ManifestDocument, ...]:
    """Read a YAML file, stdin (``-``), or the manifests in Markdown and other text; invalid YAML is a document, too.

    Raises SpecError: it is unreadable.
    """
    try:
        text = sys.stdin.read() if file == STDIN else file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise SpecError(f"{file}: cannot be read: {why}", fix="name a YAML file of manifests") from None
    name = "stdin" if file == STDIN else str(file)
    if file.suffix.lower() in PROSE_SUFFIXES:
        return tuple(one for block in blocks(text) for one in _embedded(block, name))
    return _parsed(text, name)


def _embedded(block: Block, file: str) -> tuple[ManifestDocument, ...]:
    found = _parsed("\n" * (block.line - 1) + block.text, file)
    if block.setting:
        return tuple(replace(one, values="set", version=block.version) for one in found)
    return found if block.whole else tuple(one for one in found if not one.problem)


def _parsed(text: str, file: str) -> tuple[ManifestDocument, ...]:
    found: list[ManifestDocument] = []
    mark = None
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                loader.twice = []
                data = loader.construct_document(node)
                found.extend(_split(ManifestDocument(file, data, node, twice=tuple(_twice(loader.twice)))))
        return tuple(found)
    except yaml.MarkedYAMLError as error:
        mark, why = error.problem_mark or error.context_mark, error.problem or error.context
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        why = str(error)
    place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    return (*found, ManifestDocument(file, {}, None, why or "unreadable", place, template="{{" in text))


def _twice(mappings: list[yaml.MappingNode]) -> Iterator[tuple[str, int, int]]:
    for node in mappings:
        first: dict[str, int] = {}
        for key, _ in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in first:
                yield name, first[name], line
            first.setdefault(name, line)


def _valid(found: tuple[ManifestDocument, ...]) -> tuple[ManifestDocument, ...]:
    for one in found:
        if one.problem:
            where = ":".join(map(str, (one.file, *one.place)))
            raise SpecError(f"{where}: not valid YAML: {one.problem}", fix="correct the line")
    return found


def _split(document: ManifestDocument) -> Iterator[ManifestDocument]:
    data, node = document.data, document.node
    if isinstance(data, dict) and str(data.get("kind")).endswith("List") and isinstance(data.get("items"), list):
        items = next(value for key, value in node.value if key.value == "items") if node is not None else None
        for item, item_node in zip(data["items"], items.value if items else (), strict=True):
            yield from _split(replace(document, data=item, node=item_node))
            document = replace(document, twice=())
    elif isinstance(data, dict):
        yield document
