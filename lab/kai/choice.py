"""The line of a KAI version: for an unknown version the nearest, never the newest."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from lab.errors import SpecError
from lab.kai.files import LineFile, sources
from lab.kai.model import VersionLine
from lab.kai.number import Release, release


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
