"""Rules that are patterns: rows of TOML files that say what a line of a log, an event or an error means."""

from __future__ import annotations

import re
import string
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.findings.finding import Certainty, Finding
from lab.findings.rule import Registry

_LONG = 300
"""Characters of a matched group that are shown."""


@dataclass(frozen=True)
class PatternRule:
    """One row.

    Attributes:
        id: the name of its table.
        title: what one sees, in a few words.
        source: issue, upstream file or text that the fact is from.
        streams: where the text shows.
        patterns: any of these is the situation; named groups may stand in ``what`` and ``next`` as ``{name}``,
            and so may the names that the caller knows.
        what: what is the matter.
        next: one next action.
        unless: must not be in the same text.
        stages: when it is asked; empty: always.
        certainty: how sure it is.
        general: follows from a cause, or only repeats the message of a component: left out beside better findings.
        proof: id of the test that produces it, or why none can.
    """

    id: str
    title: str
    source: str
    streams: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]
    what: str
    next: str
    unless: re.Pattern[str] | None = None
    stages: tuple[str, ...] = ()
    certainty: Certainty = Certainty.CERTAIN
    general: bool = False
    proof: str = ""

    @property
    def words(self) -> frozenset[str]:
        texts = (self.what, self.next)
        return frozenset(name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name)

    def search(self, text: str, speaker: str = "") -> re.Match[str] | None:
        """Where the text matches; None where it does not. A ``speaker`` is looked at as well, before the text."""
        if self.unless and self.unless.search(text):
            return None
        whole = f"{speaker}: {text}" if speaker else text
        return next((match for pattern in self.patterns if (match := pattern.search(whole))), None)

    def finding(self, match: re.Match[str], evidence: Iterable[str], names: Mapping[str, str]) -> Finding:
        """The finding for a match; ``names`` fill the placeholders that the pattern does not."""
        words = {**names, **{name: _short(text) for name, text in match.groupdict().items()}}
        return Finding(
            " ".join(self.what.format_map(words).split()),
            " ".join(self.next.format_map(words).split()),
            tuple(evidence),
            self.certainty,
            rule=self.id,
            title=self.title,
            source=self.source,
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "source": self.source,
            "general": self.general,
            "streams": sorted(self.streams),
            "patterns": [pattern.pattern for pattern in self.patterns],
            "what": self.what,
            "next": self.next,
            "proof": self.proof,
        }


_KEYS = frozenset(field.name for field in fields(PatternRule)) - {"id"}


def load(paths: Iterable[Path], streams: Collection[str], flags: re.RegexFlag = re.NOFLAG) -> Registry[PatternRule]:
    """The rows of TOML files, in their order.

    Args:
        paths: the files; each table is a row.
        streams: the names that a row may give as its streams.
        flags: of the patterns.

    Raises:
        LabError: a row is not well-formed, or its id is there twice.
    """
    rows = [pair for path in paths for pair in tomllib.loads(path.read_text()).items()]
    return Registry("patterns", (_rule(key, row, streams, flags) for key, row in rows))


def _rule(key: str, row: Mapping[str, Any], streams: Collection[str], flags: re.RegexFlag) -> PatternRule:
    if strange := sorted(set(row) - _KEYS):
        raise LabError(f"{key}: no such key: {', '.join(strange)}")
    if strange := sorted(set(row["streams"]) - set(streams)):
        raise LabError(f"{key}: no such stream: {', '.join(strange)}")
    values = {
        **row,
        "streams": frozenset(row["streams"]),
        "patterns": tuple(re.compile(pattern, flags) for pattern in row["patterns"]),
        "unless": re.compile(row["unless"], flags) if "unless" in row else None,
        "stages": tuple(row.get("stages", ())),
        "certainty": Certainty(row.get("certainty", "certain")),
    }
    return PatternRule(id=key, **values)


def _short(text: str | None) -> str:
    words = " ".join((text or "").split())
    return words if len(words) <= _LONG else words[:_LONG] + "…"
