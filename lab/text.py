"""Text for messages: counts, durations, suggestions for unknown names; and texts of programs without colours."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def count(number: float, what: str) -> str:
    """``1 pod``, ``2 pods``, ``0.5 GPUs``."""
    return f"{number if isinstance(number, int) else f'{number:g}'} {what}{'' if number == 1 else 's'}"


def mebibytes(size: int) -> str:
    """A number of bytes: ``0.3 MiB``, ``42 MiB``, ``1.2 GiB``."""
    mib = size / (1 << 20)
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB" if mib >= 10 else f"{mib:.1f} MiB"


def one_line(text: str, longest: int = 300) -> str:
    """The text with single spaces, cut after ``longest`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[:longest] + "…"


def without_colours(text: str) -> str:
    """The text without the escape sequences of colours."""
    return _COLOUR.sub("", text)


def seconds(value: float, digits: int = 1) -> str:
    """An elapsed time: ``12.3 s``, ``2 min 05 s``, ``1 h 02 min``; ``digits`` apply below a minute."""
    return f"{max(value, 0.0):.{digits}f} s" if value < 59.95 else whole_seconds(value)


def whole_seconds(value: float) -> str:
    """A running or estimated time: ``12 s``, ``2 min 05 s``, ``1 h 02 min``."""
    total = round(max(value, 0.0))
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02} s"
    return f"{total // 3600} h {total % 3600 // 60:02} min"


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The most similar known word, ignoring case; empty if none has at least difflib's ratio ``cutoff``."""
    folded = {name.lower(): name for name in reversed(list(known))}
    near = difflib.get_close_matches(word.lower(), folded, 1, cutoff)
    return folded[near[0]] if near else ""


def perhaps(word: str, known: Iterable[str]) -> str:
    """``; perhaps you meant 'x'?`` if a known word is similar, otherwise the empty string."""
    near = nearest(word, known, 0.65)
    return f"; perhaps you meant '{near}'?" if near else ""


def workflow_command(name: str, text: str, **properties: str | int) -> str:
    """A line for GitHub Actions, such as an annotation at ``file`` and ``line`` (actions/toolkit, command.ts)."""

    def escaped(value: str) -> str:
        return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    given = {key: escaped(str(value)).replace(":", "%3A").replace(",", "%2C") for key, value in properties.items()}
    words = ",".join(f"{key}={value}" for key, value in given.items())
    return f"::{name}{f' {words}' if words else ''}::{escaped(text)}\n"
