"""Which line a KAI version belongs to. A version that is not known gets the nearest line, never the highest."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from lab.errors import SpecError
from lab.kai.files import FactSource, sources
from lab.kai.model import VersionLine
from lab.kai.number import release


@functools.cache
def lines() -> Mapping[str, VersionLine]:
    """All lines, oldest first, each in the version that the lab is tested with; by that version."""
    return {source.version: source.line(source.version) for source in sources()}


@functools.cache
def line_of(version: str) -> VersionLine:
    """What holds for a KAI version.

    The line whose checked releases have it. Otherwise the nearest line of the same minor, or else of the next older
    one: ``exact`` is then false, and ``warning`` says so. ``version`` of the answer is what was asked for.

    Raises:
        SpecError: older than all lines, or no version.
    """
    wanted = release(version)
    for source in sources():
        if release(source.first) <= wanted <= release(source.last) and wanted[3]:
            return source.line(version)
    near = nearest(version, sources())
    told = f"KAI {version} is not known here: taken for one of line {near.name} ({near.range})"
    return near.line(version, exact=False, warning=told)


def nearest(version: str, known: tuple[FactSource, ...]) -> FactSource:
    """The line that a version not known is taken for; of two that are equally near, the older.

    Raises:
        SpecError: older than all lines.
    """
    wanted = release(version)
    older = [source for source in known if release(source.first)[:2] <= wanted[:2]]
    if not older:
        raise SpecError(
            f"KAI {version} is older than all versions that the lab knows", fix=f"take one of: {', '.join(lines())}"
        )
    minor = max(release(source.first)[:2] for source in older)
    same = [source for source in older if release(source.first)[:2] == minor]
    if minor != wanted[:2]:
        return same[-1]
    return min(same, key=lambda source: _patches_to(source, wanted[2]))


def _patches_to(source: FactSource, patch: int) -> int:
    return max(release(source.first)[2] - patch, patch - release(source.last)[2], 0)
