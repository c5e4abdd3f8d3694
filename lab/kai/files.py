"""Read ``lines/*.toml`` (one file per version line, merged over ``every.toml``) and find the line of a KAI version.

Unknown keys in the files are errors. An unknown version gets the nearest line, never the newest.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lab.errors import LabError, SpecError
from lab.kai.model import Defect, HelmKeys, Keys, Release, VersionLine, release

Data = Mapping[str, Any]

_FOLDER = Path(__file__).with_name("lines")
_SHARED = "every"
_TABLES = {"keys": Keys, "helm": HelmKeys}
_OF_A_LINE = {"version", "first", "last"}
_NOT_IN_FILES = {"name", "exact", "warning"}


_TAG = re.compile(r":v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)$")


@dataclass(frozen=True)
class LineFile:
    """A line's file: the facts of its first release, and the changes in later ones."""

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
        """The facts of one version of the line."""
        data = dict(self.data)
        for change in self.changes:
            if release(change["since"]) <= release(version):
                data = merged(data, {key: value for key, value in change.items() if key != "since"})
        defects = tuple(
            Defect(id=name, fixed_in=fixed_in, **self.known_defects[name]) for name, fixed_in in data["defects"].items()
        )
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in data.items()
        }
        values |= {name: table(**data[name]) for name, table in _TABLES.items()}
        values |= {"by_operator": frozenset(data["by_operator"]), "features": frozenset(data["features"])}
        values |= {"name": self.name, "version": version, "defects": defects}
        # an unchecked version needs the chart's own Jobs
        own: dict[str, Any] = {} if exact else {"hooks": "helm", "config_template": ""}
        return VersionLine(**values | own, exact=exact, warning=warning)


@functools.cache
def sources() -> tuple[LineFile, ...]:
    """All lines' files, oldest first. Raises LabError for unknown and missing keys."""
    every = tomllib.loads((_FOLDER / f"{_SHARED}.toml").read_text())
    paths = [path for path in _FOLDER.glob("*.toml") if path.stem != _SHARED]
    found = [source(path.stem, tomllib.loads(path.read_text()), every) for path in paths]
    return tuple(sorted(found, key=lambda one: release(one.first)))


@functools.cache
def lines() -> Mapping[str, VersionLine]:
    """All lines, oldest first, by the version that the lab is tested with."""
    return {source.version: source.line(source.version) for source in sources()}


@functools.cache
def line_of(version: str) -> VersionLine:
    """The line of a KAI version, with that ``version``.

    A version that no line has been checked with gets the nearest line of its minor, or of the next older one, with a
    ``warning`` and ``exact`` false. Raises SpecError for invalid versions and those older than all lines.
    """
    wanted = release(version)
    for source in sources():
        if release(source.first) <= wanted <= release(source.last) and wanted[3]:
            return source.line(version)
    near = _nearest(version, wanted)
    warning = f"KAI {version} is unknown; the lab treats it like line {near.name} ({near.range})"
    return near.line(version, exact=False, warning=warning)


def version_of(images: Iterable[str]) -> str:
    """The KAI version that most of these images have as their tag; empty if no tag is a version."""
    found = (_TAG.search(image) for image in images)
    tags = [match[1].removesuffix("-fips") for match in found if match]
    return max(sorted(set(tags)), key=tags.count, default="")


def cured_in(defect: str, version: str) -> str:
    """The first release from ``version`` on that does not have a defect; empty while all known ones have it.

    Where the files name no release with the fix, it is the first one of the next line that does not list the defect.
    Raises SpecError for an invalid version.
    """
    newer = (line_of(file.first) for file in sources() if release(file.first) > release(version))
    for line in (line_of(version), *newer):
        open_ = {one.id: one.fixed_in for one in line.open_defects}
        if fixed := open_.get(defect, line.version):
            return fixed
    return ""


def _nearest(version: str, wanted: Release) -> LineFile:
    """The nearest line of the same minor (the older of two), or the newest of the next older minor."""
    older = [source for source in sources() if release(source.first)[:2] <= wanted[:2]]
    if not older:
        raise SpecError(
            f"KAI {version} is older than all versions that the lab supports", fix=f"use one of: {', '.join(lines())}"
        )
    minor = max(release(source.first)[:2] for source in older)
    same = [source for source in older if release(source.first)[:2] == minor]
    if minor != wanted[:2]:
        return same[-1]
    patch = wanted[2]
    return min(same, key=lambda source: max(release(source.first)[2] - patch, patch - release(source.last)[2]))


def source(name: str, own: Data, every: Data) -> LineFile:
    """A line: its own file's data merged over that of every.toml. Raises LabError for unknown and missing keys."""
    defects = every["defect"]
    for one, texts in defects.items():
        _check_keys(f"{_SHARED}: defect {one}", {"what", "issue"}, texts)
    shared = {key: value for key, value in every.items() if key != "defect"}
    whole = merged(shared, {key: value for key, value in own.items() if key != "change"})
    changes = own.get("change", [])
    wanted = {field.name for field in fields(VersionLine)} - _NOT_IN_FILES
    _check_keys(name, wanted, whole)
    for table, kind in _TABLES.items():
        _check_keys(f"{name}: {table}", {field.name for field in fields(kind)}, whole[table])
    for change in changes:
        where = f"{name}: change since {change.get('since')}"
        _check_keys(where, (wanted | {"since"}) - _OF_A_LINE, change, partial=True)
        for table, kind in _TABLES.items():
            known = {field.name for field in fields(kind)}
            _check_keys(f"{where}: {table}", known, change.get(table, {}), partial=True)
    for part in (whole, *changes):
        _check_keys(f"{name}: defects", set(defects), part.get("defects", {}), partial=True)
    ordered = tuple(sorted(changes, key=lambda change: release(change["since"])))
    return LineFile(name, whole["version"], whole["first"], whole["last"], whole, ordered, defects)


def merged(below: Data, above: Data) -> dict[str, Any]:
    """``above`` over ``below``: tables and defects merge by key, features add up, other values are replaced."""
    result = {**below, **above}
    for name in (*_TABLES, "defects"):
        result[name] = {**below.get(name, {}), **above.get(name, {})}
    result["features"] = [*below.get("features", []), *above.get("features", [])]
    return result


def _check_keys(where: str, known: set[str], data: Data, *, partial: bool = False) -> None:
    unknown, missing = sorted(set(data) - known), sorted(known - set(data))
    if unknown or (missing and not partial):
        what = f"unknown: {', '.join(unknown)}" if unknown else f"missing: {', '.join(missing)}"
        raise LabError(f"KAI's line {where}: {what}", fix="see lab/kai/lines/every.toml")
