"""The known failures of the way to a GPU: how one shows, what it means, what to do about it. Pure.

The rows are data, in the symptoms_*.toml beside this file.
"""

from __future__ import annotations

import functools
import re
import string
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

TEXT = "text"
"""The stream of a text that somebody gives us: every symptom is looked for in it."""

STREAMS: Mapping[str, str] = MappingProxyType(
    {
        "doctor": "what a check of this machine says",
        "engine": "what the container engine, kind or kubeadm says",
        "node": "what is wrong in a node, in the lab's own words (diagnose_node.py, diagnose_cluster.py)",
        "nvidia-smi": "what nvidia-smi prints in a node when it fails",
        "containerd-log": "containerd's journal in a node",
        "kubelet-log": "the kubelet's journal in a node",
        "plugin-log": "log of a device plugin's pod",
        "reservation-log": "log of a reservation pod",
        "pod-log": "log of another pod with a GPU that crashes",
        "pod-status": "status of a pod that does not run: waiting containers, conditions, why it failed",
        "event": "event about such a pod, or about what may not make it",
        TEXT: "a log or error text that somebody gives to lab doctor --log",
    }
)
"""Where symptoms show → what that is."""

FILES = ("machine", "system", "node", "plugin", "kai")
"""Rows in the order of the way of a GPU, so that causes come before what follows from them."""

NOT_HERE = "not here: "
"""How ``proof`` begins where no test can produce the symptom; the reason follows."""

_LINES = 4
"""Lines of evidence that are kept of one symptom."""

_LONG = 400
_QUOTE = re.compile(r'\\+"')
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Symptom:
    """One row.

    Attributes:
        id: its name.
        sees: what one sees, in a few words.
        streams: where it shows.
        patterns: any of these in a line is the symptom; named groups may stand in ``means`` and ``fix``
            as ``{name}``, and the node or pod it was seen at as ``{where}``.
        means: what is the matter.
        fix: one next action.
        source: issue, upstream file or text that the fact is from.
        proof: id of the test that produces it, or why none can.
        general: follows from a cause; not told where something else was found at the same place.
    """

    id: str
    sees: str
    streams: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]
    means: str
    fix: str
    source: str
    proof: str
    general: bool = False

    @property
    def words(self) -> frozenset[str]:
        """The placeholders in ``means`` and ``fix``."""
        texts = (self.means, self.fix)
        return frozenset(name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name)

    def hit(self, line: str) -> re.Match[str] | None:
        """Where the line shows it; None where it does not."""
        return next((match for pattern in self.patterns if (match := pattern.search(line))), None)

    def as_json(self) -> dict[str, Any]:
        """The row as plain data."""
        return {
            "id": self.id,
            "sees": self.sees,
            "streams": sorted(self.streams),
            "patterns": [pattern.pattern for pattern in self.patterns],
            "means": self.means,
            "fix": self.fix,
            "source": self.source,
            "proof": self.proof,
        }


@dataclass(frozen=True)
class Evidence:
    """One line of one stream; ``where`` is the pod (``namespace/name``), node or place, ``node`` the pod's node."""

    stream: str
    where: str
    text: str
    node: str = ""

    @property
    def places(self) -> frozenset[str]:
        """Names under which other evidence may be about the same."""
        return frozenset(filter(None, (self.where, self.node)))


@dataclass(frozen=True)
class SymptomMatch:
    """A symptom that was seen, and where."""

    symptom: Symptom
    evidence: tuple[Evidence, ...]
    means: str
    fix: str
    places: frozenset[str] = field(default=frozenset(), compare=False)

    def lines(self) -> tuple[str, ...]:
        """The evidence, a line each, cut where it is long."""
        told = (f"{one.where}{'' if one.stream == TEXT else f' ({one.stream})'}: {one.text}" for one in self.evidence)
        return tuple(line if len(line) <= _LONG else line[:_LONG] + "…" for line in told)

    def as_json(self) -> dict[str, Any]:
        """The finding as plain data."""
        row = self.symptom
        return {
            "symptom": row.id,
            "sees": row.sees,
            "means": self.means,
            "next": self.fix,
            "source": row.source,
            "evidence": [{"stream": one.stream, "where": one.where, "text": one.text} for one in self.evidence],
        }


@functools.cache
def symptoms() -> Mapping[str, Symptom]:
    """All symptoms by id, in the order of the files and of the rows in them."""
    found: dict[str, Symptom] = {}
    for name in FILES:
        rows = tomllib.loads((Path(__file__).parent / f"symptoms_{name}.toml").read_text())
        for key, row in rows.items():
            if key in found:
                raise ValueError(f"two symptoms are called {key}")
            found[key] = _row(key, row)
    return MappingProxyType(found)


def _row(key: str, row: Mapping[str, Any]) -> Symptom:
    compiled = tuple(re.compile(pattern, re.MULTILINE) for pattern in row["patterns"])
    return Symptom(**{**row, "id": key, "patterns": compiled, "streams": frozenset(row["streams"])})


def match(evidence: Iterable[Evidence], rows: Iterable[Symptom] | None = None) -> tuple[SymptomMatch, ...]:
    """The symptoms in the evidence, causes first; general ones only where nothing else was found.

    Args:
        evidence: lines of streams.
        rows: which symptoms are looked for, in the order of the table; all of them unless told.
    """
    wanted = tuple(symptoms().values() if rows is None else rows)
    seen: dict[str, dict[Evidence, re.Match[str]]] = {}
    for one in evidence:
        line = normal(one.text)
        for row in wanted:
            if (one.stream == TEXT or one.stream in row.streams) and (hit := row.hit(line)):
                seen.setdefault(row.id, {})[one] = hit
    found = [_found(row, seen[row.id]) for row in wanted if row.id in seen]
    explained = frozenset[str]().union(*(one.places for one in found if not one.symptom.general))
    return tuple(one for one in found if not (one.symptom.general and one.places <= explained))


def in_text(text: str, where: str = "text") -> tuple[SymptomMatch, ...]:
    """The symptoms in a log or an error text; ``where`` names it in the evidence."""
    text = normal(text)
    # Of a long log few symptoms are anywhere in it: the lines are looked through for these alone.
    rows = [row for row in symptoms().values() if row.hit(text)]
    lines = (line.strip() for line in text.splitlines())
    return match((Evidence(TEXT, where, line) for line in lines if line), rows)


def normal(text: str) -> str:
    """The text without colours, and without the backslashes that logs put before quotes."""
    return _QUOTE.sub('"', _COLOUR.sub("", text)).replace("\\n", "\n")


def _found(row: Symptom, hits: Mapping[Evidence, re.Match[str]]) -> SymptomMatch:
    first, match_ = next(iter(hits.items()))
    words = {"where": first.where, **{name: value or "" for name, value in match_.groupdict().items()}}
    places = frozenset[str]().union(*(one.places for one in hits))
    return SymptomMatch(row, tuple(hits)[:_LINES], row.means.format(**words), row.fix.format(**words), places)
