"""Reads ``lines/*.toml``: one file a version line, laid over ``every.toml``; unknown keys are refused."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.kai.model import Defect, HelmKeys, Keys, VersionLine
from lab.kai.number import release

Data = Mapping[str, Any]

_FOLDER = Path(__file__).with_name("lines")
_SHARED = "every"
_TABLES = {"keys": Keys, "helm": HelmKeys}
_OF_A_LINE = {"version", "first", "last"}
_NOT_IN_FILES = {"name", "exact", "warning"}


@dataclass(frozen=True)
class FactSource:
    """A line's file: what holds from its first release on, and what changed in later ones."""

    name: str
    version: str
    first: str
    last: str
    data: Data
    changes: tuple[Data, ...]
    known_defects: Mapping[str, Data]

    @property
    def range(self) -> str:
        """The releases that the data was checked against."""
        return f"{self.first} to {self.last}" if self.first != self.last else self.first

    def line(self, version: str, *, exact: bool = True, warning: str = "") -> VersionLine:
        """What holds for one version of the line."""
        data = dict(self.data)
        for change in self.changes:
            if release(change["since"]) <= release(version):
                data = laid_over(data, {key: value for key, value in change.items() if key != "since"})
        defects = tuple(
            Defect(id=name, fixed_in=fixed_in, **self.known_defects[name]) for name, fixed_in in data["defects"].items()
        )
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in data.items()
        }
        values |= {name: table(**data[name]) for name, table in _TABLES.items()}
        values |= {"by_operator": frozenset(data["by_operator"]), "features": frozenset(data["features"])}
        values |= {"name": self.name, "version": version, "defects": defects}
        # Only a chart's own Jobs fit a version that nobody has looked at.
        own: dict[str, Any] = {} if exact else {"hooks": "helm", "config_template": ""}
        return VersionLine(**values | own, exact=exact, warning=warning)


@functools.cache
def sources() -> tuple[FactSource, ...]:
    """All lines' files, oldest first.

    Raises:
        LabError: a file has a key that is not known, or lacks one.
    """
    every = tomllib.loads((_FOLDER / f"{_SHARED}.toml").read_text())
    paths = [path for path in _FOLDER.glob("*.toml") if path.stem != _SHARED]
    found = [source(path.stem, tomllib.loads(path.read_text()), every) for path in paths]
    return tuple(sorted(found, key=lambda one: release(one.first)))


def source(name: str, own: Data, every: Data) -> FactSource:
    """A line from its own file's content over that of every.toml.

    Raises:
        LabError: a key is not known, or one is missing.
    """
    defects = every["defect"]
    for one, texts in defects.items():
        _same(f"{_SHARED}: defect {one}", {"what", "issue"}, texts)
    shared = {key: value for key, value in every.items() if key != "defect"}
    whole = laid_over(shared, {key: value for key, value in own.items() if key != "change"})
    changes = own.get("change", [])
    wanted = {field.name for field in fields(VersionLine)} - _NOT_IN_FILES
    _same(name, wanted, whole)
    for table, kind in _TABLES.items():
        _same(f"{name}: {table}", {field.name for field in fields(kind)}, whole[table])
    for change in changes:
        where = f"{name}: change since {change.get('since')}"
        _known(where, (wanted | {"since"}) - _OF_A_LINE, change)
        for table, kind in _TABLES.items():
            _known(f"{where}: {table}", {field.name for field in fields(kind)}, change.get(table, {}))
    for part in (whole, *changes):
        _known(f"{name}: defects", set(defects), part.get("defects", {}))
    ordered = tuple(sorted(changes, key=lambda change: release(change["since"])))
    return FactSource(name, whole["version"], whole["first"], whole["last"], whole, ordered, defects)


def laid_over(below: Data, above: Data) -> dict[str, Any]:
    """Data over data: tables of names and the defects by key, features added up, all else replaced."""
    merged = {**below, **above}
    for name in (*_TABLES, "defects"):
        merged[name] = {**below.get(name, {}), **above.get(name, {})}
    merged["features"] = [*below.get("features", []), *above.get("features", [])]
    return merged


def _same(where: str, wanted: set[str], there: Data) -> None:
    _known(where, wanted, there)
    if missing := sorted(wanted - set(there)):
        raise LabError(f"KAI's line {where}: missing: {', '.join(missing)}", fix="see lab/kai/lines/every.toml")


def _known(where: str, wanted: set[str], there: Data) -> None:
    if strange := sorted(set(there) - wanted):
        raise LabError(f"KAI's line {where}: unknown: {', '.join(strange)}", fix="see lab/kai/lines/every.toml")
