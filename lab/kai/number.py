"""Version numbers as something that can be compared."""

from __future__ import annotations

import re

from lab.errors import SpecError

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?")

Release = tuple[int, int, int, int]
"""Major, minor, patch, and 0 for what comes before the release of that number (a candidate), otherwise 1."""


def release(version: str) -> Release:
    """A version as numbers; a candidate such as 0.9.4-rc.0 comes before its release.

    Raises:
        SpecError: no version of three numbers.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        raise SpecError(f"{version!r} is no version", fix="write three numbers, such as 0.16.8")
    major, minor, patch = (int(number) for number in match.groups()[:3])
    return major, minor, patch, 0 if match[4] else 1
