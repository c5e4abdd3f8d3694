"""Words for people: counts, time spans, and the known name that is nearest to an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def count(number: int, what: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def seconds(value: float, digits: int = 1) -> str:
    """A time span that has passed: ``12.3 s``, ``2 min 05 s``, ``1 h 02 min``; ``digits`` below a minute."""
    if value < 59.95:
        return f"{max(value, 0.0):.{digits}f} s"
    return whole_seconds(value)


def whole_seconds(value: float) -> str:
    """A time span that still changes or is an estimate: ``12 s``, ``2 min 05 s``, ``1 h 02 min``."""
    total = round(max(value, 0.0))
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02} s"
    return f"{total // 3600} h {total % 3600 // 60:02} min"


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known word that is most similar, whatever its case; empty where none is (difflib's ratio ≥ cutoff)."""
    folded = {name.lower(): name for name in reversed(list(known))}
    near = difflib.get_close_matches(word.lower(), folded, 1, cutoff)
    return folded[near[0]] if near else ""


def perhaps(word: str, known: Iterable[str]) -> str:
    """``; perhaps you meant 'x'?`` where one of the known words is near, otherwise nothing."""
    near = nearest(word, known, 0.65)
    return f"; perhaps you meant '{near}'?" if near else ""
