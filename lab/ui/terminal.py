"""Signs, and text that any terminal can show."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True)
class Terminal:
    """Signs and text for one output encoding; all but Unicode encodings get ASCII signs."""

    encoding: str = "utf-8"

    @property
    def unicode(self) -> bool:
        try:
            return codecs.lookup(self.encoding).name.startswith("utf")
        except LookupError:
            return False

    def glyph(self, state: str) -> str:
        """The sign of a step's state or outcome, or of a finding."""
        return _GLYPHS[state][0 if self.unicode else 1]

    def spinner(self, seconds: float) -> str:
        """The sign of a running step at a point in time; ten frames per second."""
        frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if self.unicode else "|/-\\"
        return frames[int(seconds * 10) % len(frames)]

    @property
    def ellipsis(self) -> str:
        return "…" if self.unicode else "..."

    @property
    def dot(self) -> str:
        return "·" if self.unicode else "-"

    def bar(self, fraction: float, width: int) -> tuple[str, str]:
        """The filled and the empty part of a progress bar of ``width`` characters."""
        filled = round(max(0.0, min(1.0, fraction)) * width)
        full, empty = ("━", "─") if self.unicode else ("#", ".")
        return full * filled, empty * (width - filled)

    def clean(self, text: str, *, indent: bool = False) -> str:
        """``text`` as one line without escape sequences, in characters of the encoding.

        Leading blanks are removed unless ``indent`` is set.
        """
        line = _CONTROLS.sub(" ", _ESCAPES.sub("", text.expandtabs(4))).rstrip()
        line = line if indent else line.lstrip()
        if self.unicode:
            return line.encode("utf-8", "replace").decode("utf-8")
        line = line.translate(_ASCII)
        try:
            return line.encode(self.encoding, "replace").decode(self.encoding)
        except LookupError:
            return line.encode("ascii", "replace").decode("ascii")


_GLYPHS = {
    "absent": ("+", "+"),
    "drifted": ("~", "~"),
    "ready": ("=", "="),
    "ok": ("✓", "+"),
    "warn": ("!", "!"),
    "fail": ("✗", "x"),
    "skip": ("-", "-"),
    "next": ("→", "->"),
    "waiting": ("·", "."),
    "running": ("•", "*"),
    "changed": ("✓", "+"),
    "unchanged": ("=", "="),
    "failed": ("✗", "x"),
    "cancelled": ("!", "!"),
    "blocked": ("-", "-"),
}

_ASCII = str.maketrans({"…": "...", "→": "->", "·": "-", "✓": "+", "✗": "x", "•": "*", "–": "-", "×": "x", "≥": ">="})
