"""Labels and annotations of a KAI tree with the components that read and write them."""

from __future__ import annotations

import re
from typing import Any

from scripts.kai_facts.go_source import GoSource, Use

_OWN = re.compile(r"(?:kai\.scheduler|(?:[\w-]+\.)?run\.ai|runai)/[\w.-]*|runai-[\w-]+")
_KEY = re.compile(r"(?:[a-z0-9][a-z0-9.-]*\.[a-z]+/)?[A-Za-z0-9][\w.-]*")
_INDEX = re.compile(r"(label|annotation)s?(?:\(\))?\[$", re.IGNORECASE)
_CALL = re.compile(r'(label|annotation)(?:\w*\((?:[^()]*,\s*)?|-key",\s*)$', re.IGNORECASE)
_MAP = re.compile(r"(Label|Annotation)s:\s*map\[string\]string\{\s*$")
_NAMED = re.compile(r"(label|annotation)", re.IGNORECASE)
_VERSION = re.compile(r".*/v\d\w*")
_WRITES = re.compile(r"\]\s*=[^=]")


def keys(source: GoSource) -> dict[str, Any]:
    """Each key: ``on`` (label, annotation), ``readers`` and ``writers`` (components).

    A key with another domain, or none, counts only where the code uses it as an index of labels or annotations. A
    component that reads a key through a shared package counts as its reader.
    """
    named: dict[str, set[str]] = {}
    for (_, name), value in source.constants.items():
        if match := _NAMED.search(name):
            named.setdefault(value, set()).add(match[1].lower())
    found = {}
    for value in {*source.uses, *source.constants.values()}:
        uses = source.uses.get(value, [])
        on = {match[1].lower() for use in uses for one in (_INDEX, _MAP) if (match := one.search(use.before))}
        own = _OWN.fullmatch(value) and not _VERSION.fullmatch(value)
        if not own and not (on and _KEY.fullmatch(value) and not value.isupper()):
            continue
        readers = {use.component for use in uses if not _writes(use)}
        writers = {use.component for use in uses if _writes(use)}
        on = on or {match[1].lower() for use in uses if (match := _CALL.search(use.before))}
        found[value] = {
            "on": sorted(on or named.get(value, set())),
            "readers": sorted(readers - {""}),
            "writers": sorted(writers - {""}),
        }
    return found


def _writes(use: Use) -> bool:
    return bool((_INDEX.search(use.before) and _WRITES.match(use.after)) or _MAP.search(use.before))
