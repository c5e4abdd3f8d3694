"""The objects of a manifest file with the lines of their values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.config.document import line_at
from lab.errors import SpecError

Loc = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    """A SafeLoader that keeps dates as text, as kubectl does."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's name and type
        first: [(tag, regexp) for tag, regexp in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@dataclass(frozen=True)
class ManifestDocument:
    """One YAML document of a file, or an item of a List in it."""

    file: str
    data: Any
    node: yaml.Node

    def line(self, loc: Loc) -> int:
        """Return the line of the key or item at ``loc``, or of its nearest existing parent."""
        return line_at(self.node, loc)


def read(file: Path) -> tuple[ManifestDocument, ...]:
    """Read the documents of a file.

    Raises:
        SpecError: it is unreadable or not YAML; with file, line and column.
    """
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise SpecError(f"{file}: cannot be read: {why}", fix="name a YAML file of manifests") from None
    return parse(text, str(file))


def parse(text: str, file: str = "-") -> tuple[ManifestDocument, ...]:
    """Parse the documents of a text; the items of a List are documents of their own. Raises SpecError."""
    loader = _Loader(text)
    documents: list[ManifestDocument] = []
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                documents.extend(_split(ManifestDocument(file, loader.construct_document(node), node)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        raise SpecError(f"{where}: not valid YAML: {error.problem or error.context}", fix="correct the line") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SpecError(f"{file}: not valid YAML: {error}", fix="correct the file") from None
    return tuple(documents)


def _split(document: ManifestDocument) -> Iterator[ManifestDocument]:
    data, node = document.data, document.node
    if isinstance(data, dict) and str(data.get("kind")).endswith("List") and isinstance(data.get("items"), list):
        items = next(value for key, value in node.value if key.value == "items")
        for item, item_node in zip(data["items"], items.value, strict=True):
            yield from _split(ManifestDocument(document.file, item, item_node))
    elif isinstance(data, dict):
        yield document
