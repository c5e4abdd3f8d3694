"""YAML documents with the line of each value.

Stricter than YAML: only JSON's types, and no duplicate keys (PyYAML silently keeps the last).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.config.rules import Loc
from lab.errors import SpecError

MAX_BYTES = 1 << 20  # maximum size of a lab file

_MAX_VALUES = 20_000
_PLAIN = {f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "str")}
_WRITE_ONE = "'kailab init' writes a lab file with every key explained"


class _Loader(yaml.SafeLoader):
    """SafeLoader that keeps dates and a lone '=' as text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's name and type
        first: [(tag, regexp) for tag, regexp in resolvers if not tag.endswith((":timestamp", ":value"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@dataclass(eq=False)
class NotYamlError(ValueError):
    """Invalid YAML; ``line`` and ``column`` start at 1."""

    why: str
    line: int = 1
    column: int = 1


@dataclass(frozen=True)
class Flaw:
    """A place with valid YAML that a lab file must not contain."""

    line: int
    loc: Loc
    what: str


class LabFileDocument:
    """One YAML text; ``data`` is None if it is empty, ``flaws`` lists refused places. Raises NotYamlError."""

    def __init__(self, text: str) -> None:
        self.flaws: list[Flaw] = []
        self._root: yaml.Node | None = None
        self._keys_checked: set[int] = set()
        self._values = 0
        try:
            loader = _Loader(text)
            self._root = loader.get_single_node()
            self.data: Any = None if self._root is None else self._build(loader, self._root, (), ())
        except yaml.reader.ReaderError as error:
            before = text[: error.position]
            column = len(before) - before.rfind("\n")
            what = f"the character U+{ord(text[error.position]):04X} is not allowed in YAML"
            raise NotYamlError(what, before.count("\n") + 1, column) from error
        except yaml.MarkedYAMLError as error:
            raise _not_yaml(error) from error
        except RecursionError as error:
            raise NotYamlError("nested too deeply") from error

    def line(self, loc: Loc) -> int:
        """The line of the key or item at ``loc``, or of the nearest one that contains it."""
        return line_at(self._root, loc)

    def _build(self, loader: _Loader, node: yaml.Node, loc: Loc, inside: tuple[int, ...]) -> Any:
        self._values += 1
        if self._values > _MAX_VALUES:
            raise NotYamlError(f"more than {_MAX_VALUES} values", node.start_mark.line + 1)
        if id(node) in inside:
            return self._flaw(node, loc, "contains itself (through an alias)")
        inside = (*inside, id(node))
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self._build(loader, item, (*loc, at), inside) for at, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            self._check_keys(loader, node, loc)
            return {
                key.value: self._build(loader, value, (*loc, key.value), inside)
                for key, value in node.value
                if key.tag == "tag:yaml.org,2002:str"
            }
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _PLAIN:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            return self._flaw(node, loc, f"the tag {tag} has no meaning in a lab file")
        try:
            value = loader.construct_object(node)
        except (ValueError, KeyError):
            return self._flaw(node, loc, f"'{node.value}' does not match its tag")
        if isinstance(value, float) and not math.isfinite(value):
            return self._flaw(node, loc, f"{node.value} is not a finite number")
        return value

    def _check_keys(self, loader: _Loader, node: yaml.MappingNode, loc: Loc) -> None:
        if id(node) in self._keys_checked:
            return
        self._keys_checked.add(id(node))
        first: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.tag != "tag:yaml.org,2002:str":
                shown = f"{key.value}; put it in quotes" if isinstance(key, yaml.ScalarNode) else "a list or mapping"
                self._flaw(key, loc, f"a key must be text, not {shown}")
            elif key.value in first:
                self._flaw(key, (*loc, key.value), f"duplicate key, first on line {first[key.value]}")
            else:
                first[key.value] = line
        loader.flatten_mapping(node)

    def _flaw(self, node: yaml.Node, loc: Loc, what: str) -> None:
        self.flaws.append(Flaw(node.start_mark.line + 1, loc, what))


def line_at(root: yaml.Node | None, loc: Loc) -> int:
    """The line (from 1) of the key or item at ``loc`` below a node, or of the nearest one that contains it."""
    here = root
    line = 1 if here is None else here.start_mark.line + 1
    for word in loc:
        if isinstance(here, yaml.MappingNode):
            pairs = [(key, value) for key, value in here.value if key.value == word]
            if not pairs:
                break
            mark, here = pairs[-1][0].start_mark, pairs[-1][1]
        elif isinstance(here, yaml.SequenceNode) and isinstance(word, int) and word < len(here.value):
            here = here.value[word]
            mark = here.start_mark
        else:
            break
        line = mark.line + 1
    return line


def read_text(file: Path) -> str:
    """The text of a lab file. Raises SpecError if it is missing or not readable text."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SpecError(f"{file}: file not found", fix=f"{_WRITE_ONE}; '--profile demo' needs none") from None
    except IsADirectoryError:
        raise SpecError(f"{file}: is a directory", fix=f"use the file in it, such as {file / 'lab.yaml'}") from None
    except OSError as error:
        raise SpecError(f"{file}: cannot be read: {error.strerror}", fix="check the path and its permissions") from None
    # YAML has no NUL bytes; UTF-16 text has them, after a byte order mark
    if b"\0" in raw and not raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SpecError(f"{file}: is a binary file, not a lab file", fix=_WRITE_ONE)
    if len(raw) > MAX_BYTES:
        raise SpecError(f"{file}: is larger than 1 MiB, not a lab file", fix=_WRITE_ONE)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        what = f"{file}:{line}: is not UTF-8 text (byte 0x{raw[error.start]:02x})"
        raise SpecError(what, fix="save the file as UTF-8") from None


def read_document(file: Path) -> LabFileDocument:
    """A lab file as a document whose data is a mapping. Raises SpecError if it is anything else."""
    text = read_text(file)
    try:
        document = LabFileDocument(text)
    except NotYamlError as error:
        where = f"{file}:{error.line}:{error.column}"
        raise SpecError(
            f"{where}: not valid YAML: {error.why}", fix="correct that line (or the one before it)"
        ) from None
    if document.data is None and not document.flaws:
        raise SpecError(f"{file}: is empty", fix=_WRITE_ONE)
    if not isinstance(document.data, dict):
        kind = "a list" if isinstance(document.data, list) else "a single value"
        what = f"{file}:{document.line(())}: a lab file is a mapping of keys to values, but this is {kind}"
        raise SpecError(what, fix=_WRITE_ONE)
    return document


def _not_yaml(error: yaml.MarkedYAMLError) -> NotYamlError:
    mark = error.problem_mark or error.context_mark
    why = error.problem or error.context or "unreadable"
    if why == "but found another document":
        why = "a second document starts here, but a lab file is one document"
    elif why.startswith("expected <block end>, but found '<block"):
        why = "the indentation does not match the lines above"
    elif "'\\t'" in why:
        why = "found a tab; indent YAML with spaces"
    elif error.context and error.context_mark and mark and error.context_mark.line != mark.line:
        why = f"{why} ({error.context}, which started on line {error.context_mark.line + 1})"
    return NotYamlError(why) if mark is None else NotYamlError(why, mark.line + 1, mark.column + 1)
