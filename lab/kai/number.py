"""Comparable version numbers."""

from __future__ import annotations

import re

from lab.errors import SpecError

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?")

Release = tuple[int, int, int, int]
"""Major, minor, patch, and 0 for a candidate (which precedes its release) or 1."""


def release(version: str) -> Release:
    """A version such as 0.16.8 or 0.9.4-rc.0 as numbers. Raises SpecError for any other text."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise SpecError(f"invalid version {version!r}", fix="use three numbers, such as 0.16.8")
    major, minor, patch = (int(number) for number in match.groups()[:3])
    return major, minor, patch, 0 if match[4] else 1
