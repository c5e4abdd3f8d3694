"""Rules that match text patterns: rows of TOML files that explain a line of a log, an event or an error."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.findings.finding import Certainty, Finding
from lab.findings.rule import Registry
from lab.text import one_line


@dataclass(frozen=True)
class PatternRule:
    """One row.

    Attributes:
        id: name of its table.
        title: the symptom in a few words.
        source: issue, upstream file or message text that the fact comes from.
        streams: the streams in which the text appears.
        patterns: any of them matches; ``what`` and ``next`` use their named groups as ``{name}``, and names from the
            caller.
        what: the problem.
        next: one next action.
        unless: must not match the same text.
        stages: stages in which the rule applies; empty: all.
        certainty: how well a match proves it.
        general: a consequence, or only repeats a component's message; omitted beside better findings.
        read_only: why no capture of a real cluster shows it; empty: captured, or no captures are required.
        proof: id of the test that produces it, or why no test can.
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
    read_only: str = ""
    proof: str = ""

    def search(self, text: str, sender: str = "") -> re.Match[str] | None:
        """Match the text, preceded by ``SENDER:`` if a sender is given."""
        if self.unless and self.unless.search(text):
            return None
        line = f"{sender}: {text}" if sender else text
        return next((match for pattern in self.patterns if (match := pattern.search(line))), None)

    def finding(self, match: re.Match[str], evidence: Iterable[str], names: Mapping[str, str]) -> Finding:
        """Return the finding for a match; ``names`` fill the placeholders that the pattern does not."""
        words = {**names, **{name: one_line(text or "") for name, text in match.groupdict().items()}}
        return Finding(
            " ".join(self.what.format_map(words).split()),
            " ".join(self.next.format_map(words).split()),
            tuple(evidence),
            self.certainty,
            rule=self.id,
            title=self.title,
            source=self.source,
        )

    JSON = "id title source general streams patterns what next proof"


_KEYS = frozenset(field.name for field in fields(PatternRule)) - {"id"}


def load(paths: Iterable[Path], streams: Collection[str], flags: re.RegexFlag = re.NOFLAG) -> Registry[PatternRule]:
    """Load the rows of TOML files in order: each table is a row, ``streams`` are the streams that rows may name.

    Raises:
        LabError: a row is invalid, or two rows have one id.
    """
    rows = [pair for path in paths for pair in tomllib.loads(path.read_text()).items()]
    return Registry("patterns", (_rule(key, row, streams, flags) for key, row in rows))


def _rule(key: str, row: Mapping[str, Any], streams: Collection[str], flags: re.RegexFlag) -> PatternRule:
    for kind, unknown in (("key", set(row) - _KEYS), ("stream", set(row["streams"]) - set(streams))):
        if unknown:
            raise LabError(f"{key}: unknown {kind}: {', '.join(sorted(unknown))}")
    values = {
        **row,
        "streams": frozenset(row["streams"]),
        "patterns": tuple(re.compile(pattern, flags) for pattern in row["patterns"]),
        "unless": re.compile(row["unless"], flags) if "unless" in row else None,
        "stages": tuple(row.get("stages", ())),
        "certainty": Certainty(row.get("certainty", "certain")),
    }
    return PatternRule(id=key, **values)
