"""Symptoms: known failures of the GPU path, with text patterns, meaning and fix. Pure.

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
from lab.text import without_colours

TEXT = "text"
"""The stream of a text from the user: every symptom is searched in it."""

STREAMS: Mapping[str, str] = MappingProxyType(
    {
        "doctor": "findings of the doctor about this machine",
        "engine": "messages of the container engine, kind or kubeadm",
        "node": "problems of a node or the cluster, in kailab's own words (node_stages.py, cluster_stages.py)",
        "nvidia-smi": "output of an nvidia-smi that fails in a node",
        "containerd-log": "containerd's journal in a node",
        "kubelet-log": "the kubelet's journal in a node",
        "plugin-log": "log of a device plugin's pod",
        "reservation-log": "log of a reservation pod",
        "pod-log": "log of another pod with a GPU that crashes",
        "pod-status": "status of a pod that does not run: waiting containers, conditions, reason of its failure",
        "event": "event about such a pod, or about a workload that cannot create it",
        TEXT: "a log or error text for kailab doctor --log",
    }
)
"""Name of a stream → its source."""

FILES = ("machine", "system", "node", "plugin", "kai")
"""Rows in the order of the GPU path, so that causes come before their effects."""

NOT_HERE = "not here: "
"""Start of ``proof`` in rows that no test can produce; the reason follows."""

_LINES = 4
"""Lines of evidence that a finding keeps."""

_LONG = 400
_QUOTE = re.compile(r'\\+"')


@dataclass(frozen=True)
class Evidence:
    """One line of one stream; ``where`` is the pod (``namespace/name``), node or place, ``node`` the pod's node."""

    stream: str
    where: str
    text: str
    node: str = ""

    @property
    def line(self) -> str:
        """A line for a finding's evidence, shortened."""
        line = f"{self.where}{'' if self.stream == TEXT else f' ({self.stream})'}: {self.text}"
        return line if len(line) <= _LONG else line[:_LONG] + "…"


@functools.cache
def symptoms() -> Registry[PatternRule]:
    """Return all symptoms, in the order of files and rows. Raises LabError for an invalid row."""
    folder = Path(__file__).parent
    return load((folder / f"symptoms_{name}.toml" for name in FILES), STREAMS.keys() - {TEXT}, re.MULTILINE)


def match(evidence: Iterable[Evidence], rows: Iterable[PatternRule] | None = None) -> tuple[Finding, ...]:
    """Find symptoms in lines of evidence, causes first; general ones only where nothing else was found.

    ``rows`` are the symptoms to look for, in the order of the table; by default all.
    """
    wanted = tuple(symptoms().values() if rows is None else rows)
    seen: dict[str, dict[Evidence, re.Match[str]]] = {}
    for one in evidence:
        line = normal(one.text)
        for row in wanted:
            if (one.stream == TEXT or one.stream in row.streams) and (hit := row.search(line)):
                seen.setdefault(row.id, {})[one] = hit
    found = [row for row in wanted if row.id in seen]
    places = {key: {place for one in hits for place in (one.where, one.node) if place} for key, hits in seen.items()}
    explained = set[str]().union(*(places[row.id] for row in found if not row.general))
    return tuple(_finding(row, seen[row.id]) for row in found if not (row.general and places[row.id] <= explained))


def in_text(text: str, where: str = "text") -> tuple[Finding, ...]:
    """Find symptoms in a log or an error text; ``where`` names it in the evidence."""
    text = normal(text)
    # Few symptoms occur anywhere in a long log: only these are searched line by line.
    rows = [row for row in symptoms().values() if row.search(text)]
    lines = (line.strip() for line in text.splitlines())
    return match((Evidence(TEXT, where, line) for line in lines if line), rows)


def normal(text: str) -> str:
    """Return the text without colours, and without the backslashes that logs put before quotes."""
    return _QUOTE.sub('"', without_colours(text)).replace("\\n", "\n")


def _finding(row: PatternRule, hits: Mapping[Evidence, re.Match[str]]) -> Finding:
    first, hit = next(iter(hits.items()))
    finding = row.finding(hit, (one.line for one in tuple(hits)[:_LINES]), {"where": first.where})
    return replace(finding, subject=first.where)
