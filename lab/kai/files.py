"""Read ``lines/*.toml`` (one file per version line, merged over ``every.toml``) and find the line of a KAI version.

What can be derived comes from ``lab.kai.facts``, defects from ``defects.toml``. Unknown keys in the files
are errors. An unknown version gets the nearest line of its minor, or of the next older one.
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
from lab.kai import facts
from lab.kai.model import Defect, HelmKeys, Keys, Release, VersionLine, release

Data = Mapping[str, Any]

_FOLDER = Path(__file__).with_name("lines")
_SHARED = "every"
_TABLES = {"keys": Keys, "helm": HelmKeys}
_OF_A_LINE = {"version", "first", "last"}
_DERIVED = {
    "component_switch",
    "crds",
    "default_queues",
    "defects",
    "hook_images",
    "images",
    "scaling_images",
    "support",
}
_DERIVED |= {"topology_api", "webhooks", "workload_class_pods"}
NOT_IN_FILES = _DERIVED | {"name", "exact", "newer", "warning"}
"""Fields of VersionLine that no file has: derived ones, and those about the version that was asked for."""
_DEFECTS = Path(__file__).with_name("defects.toml")
_DEFECT = {"what", "releases", "issue", "brought", "cured", "workaround", "proof"}

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

    @property
    def range(self) -> str:
        """The releases that the data was checked against."""
        return f"{self.first} to {self.last}" if self.first != self.last else self.first

    def line(self, version: str, *, exact: bool = True, newer: bool = False, warning: str = "") -> VersionLine:
        """The facts of one version of the line."""
        data = dict(self.data)
        for change in self.changes:
            if release(change["since"]) <= release(version):
                data = merged(data, {key: value for key, value in change.items() if key != "since"})
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in data.items()
        }
        values |= {"name": self.name, "version": version} | _derived(version, data)
        if not exact:
            values["config_template"] = ""  # an unchecked version needs the chart's own Jobs
        return VersionLine(**values, exact=exact, newer=newer, warning=warning)


def _derived(version: str, data: Data) -> dict[str, Any]:
    """The fields of VersionLine that come from the release's derived facts."""
    chart = facts.chart_values(version)
    helm = HelmKeys(**_present(data["helm"], chart))
    webhooks, topology_api = facts.webhooks(version), facts.topology_api(version)
    by_operator = {*data["by_operator"], *(webhooks if "kai-operator" in data["deployments"] else ())}
    features = {name for name, since in data["features"].items() if release(since) <= release(version)}
    of_class = helm.workload_class.rpartition(".")[2]  # such as admission.gpuFractionRuntimeClassName
    return facts.images(version) | {
        "keys": Keys(**_present(data["keys"], facts.at("keys", version))),
        "helm": helm,
        "crds": facts.own_crds(version),
        "webhooks": webhooks,
        "by_operator": frozenset(by_operator),
        "component_switch": any(f"{data['deployments'].get(name)}.enabled" in chart for name in data["by_operator"]),
        "default_queues": tuple(facts.at("queues", version)),
        "defects": _defects_of(version),
        "support": facts.support(version),
        "topology_api": topology_api,
        "features": frozenset(features | ({"topology"} if topology_api else set())),
        "workload_class_pods": "fraction" if "Fraction" in of_class else "gpu" if of_class else "none",
    }


def _present(names: Mapping[str, str | list[str]], known: Iterable[str]) -> dict[str, str]:
    """The names that a version has: of several, the first one; a name that ends in / is a prefix of one."""
    found = {}
    for field, value in names.items():
        candidates = [value] if isinstance(value, str) else value
        found[field] = next((name for name in candidates if name.removesuffix("/") in known), "")
    return found


@functools.cache
def _defect_data() -> Mapping[str, Data]:
    data = tomllib.loads(_DEFECTS.read_text())
    for name, one in data.items():
        _check_keys(f"defect {name}", _DEFECT, one)
    return data


@functools.cache
def _defects_of(version: str) -> tuple[Defect, ...]:
    """The known defects that a version has; one without data has those of the newest release before it."""
    wanted = facts.nearest(version)
    order = facts.releases()
    found = []
    for name, one in _defect_data().items():
        if facts.within(wanted, one["releases"]):
            later = (other for other in order[order.index(wanted) :] if not facts.within(other, one["releases"]))
            found.append(Defect(id=name, fixed_in=next(later, ""), **one))
    return tuple(found)


@functools.cache
def known_defects() -> tuple[Defect, ...]:
    """All known defects, each as the last release has it that has it."""
    order = facts.releases()
    last = (
        (name, [one for one in order if facts.within(one, row["releases"])]) for name, row in _defect_data().items()
    )
    return tuple(defect for name, having in last for defect in _defects_of(having[-1]) if defect.id == name)


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
    ``warning`` and ``exact`` false; ``newer`` is true for a version after all known releases. Raises SpecError for
    invalid versions and those older than all lines.
    """
    wanted = release(version)
    for source in sources():
        if release(source.first) <= wanted <= release(source.last) and wanted[3]:
            return source.line(version)
    near = _nearest(version, wanted)
    newer = wanted > release(sources()[-1].last)
    about = f"newer than all releases that kailab knows (to {sources()[-1].last})" if newer else "unknown"
    warning = f"KAI {version} is {about}; the lab treats it like line {near.name} ({near.range})"
    return near.line(version, exact=False, newer=newer, warning=warning)


def version_of(images: Iterable[str]) -> str:
    """The KAI version that most of these images have as their tag; empty if no tag is a version."""
    found = (_TAG.search(image) for image in images)
    tags = [match[1].removesuffix("-fips") for match in found if match]
    return max(sorted(set(tags)), key=tags.count, default="")


def cured_in(defect: str, version: str) -> str:
    """The first release from ``version`` on that does not have a defect; empty while all known ones have it.

    Raises SpecError for an invalid version.
    """
    return next((one.fixed_in for one in line_of(version).defects if one.id == defect), version)


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
    whole = merged(every, {key: value for key, value in own.items() if key != "change"})
    changes = own.get("change", [])
    wanted = {field.name for field in fields(VersionLine)} - NOT_IN_FILES
    _check_keys(name, wanted, whole)
    for table, kind in _TABLES.items():
        _check_keys(f"{name}: {table}", {field.name for field in fields(kind)}, whole[table])
    for change in changes:
        where = f"{name}: change since {change.get('since')}"
        _check_keys(where, (wanted | {"since"}) - _OF_A_LINE, change, partial=True)
        for table, kind in _TABLES.items():
            known = {field.name for field in fields(kind)}
            _check_keys(f"{where}: {table}", known, change.get(table, {}), partial=True)
    ordered = tuple(sorted(changes, key=lambda change: release(change["since"])))
    return LineFile(name, whole["version"], whole["first"], whole["last"], whole, ordered)


def merged(below: Data, above: Data) -> dict[str, Any]:
    """``above`` over ``below``: tables merge by key, other values are replaced."""
    result = {**below, **above}
    for name in _TABLES:
        result[name] = {**below.get(name, {}), **above.get(name, {})}
    return result


def _check_keys(where: str, known: set[str], data: Data, *, partial: bool = False) -> None:
    unknown, missing = sorted(set(data) - known), sorted(known - set(data))
    if unknown or (missing and not partial):
        what = f"unknown: {', '.join(unknown)}" if unknown else f"missing: {', '.join(missing)}"
        raise LabError(f"KAI's line {where}: {what}", fix="see lab/kai/lines/every.toml")
