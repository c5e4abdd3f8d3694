"""The known failures of the way to a GPU: how one shows, what it means, what to do about it. Pure.

The rows are data, in the symptoms_*.toml beside this file.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from lab.findings import Finding, PatternRule, Registry, load

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

    @property
    def line(self) -> str:
        """As a line of a finding's evidence, cut where it is long."""
        line = f"{self.where}{'' if self.stream == TEXT else f' ({self.stream})'}: {self.text}"
        return line if len(line) <= _LONG else line[:_LONG] + "…"


@functools.cache
def symptoms() -> Registry[PatternRule]:
    """All symptoms, in the order of the files and of the rows in them. Raises LabError for a row that is wrong."""
    folder = Path(__file__).parent
    return load((folder / f"symptoms_{name}.toml" for name in FILES), STREAMS.keys() - {TEXT}, re.MULTILINE)


def match(evidence: Iterable[Evidence], rows: Iterable[PatternRule] | None = None) -> tuple[Finding, ...]:
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
            if (one.stream == TEXT or one.stream in row.streams) and (hit := row.search(line)):
                seen.setdefault(row.id, {})[one] = hit
    found = [row for row in wanted if row.id in seen]
    places = {key: frozenset[str]().union(*(one.places for one in hits)) for key, hits in seen.items()}
    explained = frozenset[str]().union(*(places[row.id] for row in found if not row.general))
    return tuple(_found(row, seen[row.id]) for row in found if not (row.general and places[row.id] <= explained))


def in_text(text: str, where: str = "text") -> tuple[Finding, ...]:
    """The symptoms in a log or an error text; ``where`` names it in the evidence."""
    text = normal(text)
    # Of a long log few symptoms are anywhere in it: the lines are looked through for these alone.
    rows = [row for row in symptoms().values() if row.search(text)]
    lines = (line.strip() for line in text.splitlines())
    return match((Evidence(TEXT, where, line) for line in lines if line), rows)


def normal(text: str) -> str:
    """The text without colours, and without the backslashes that logs put before quotes."""
    return _QUOTE.sub('"', _COLOUR.sub("", text)).replace("\\n", "\n")


def _found(row: PatternRule, hits: Mapping[Evidence, re.Match[str]]) -> Finding:
    first, hit = next(iter(hits.items()))
    found = row.finding(hit, (one.line for one in tuple(hits)[:_LINES]), {"where": first.where})
    return replace(found, subject=first.where)
