"""Rules that read what a component said: rows of messages.toml and kubelet.toml."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.explain.component_messages import ComponentMessage
from lab.explain.finding import Certainty, Finding, PodStage
from lab.explain.pod_context import PodContext
from lab.explain.rule import Rule

_FILES = ("messages.toml", "kubelet.toml")
_KEYS = {"id", "title", "source", "voice", "stages", "pattern", "unless", "what", "next", "general", "certainty"}
_VOICES = ("refusals", "verdicts", "bind_errors", "kubelet")
_LONG = 300


@dataclass(frozen=True)
class Message:
    """What a text means."""

    voice: str
    pattern: re.Pattern[str]
    unless: re.Pattern[str] | None
    what: str
    next: str
    certainty: Certainty

    def __call__(self, case: PodContext) -> Finding | None:
        """The finding when a component said something of the kind."""
        sayings: tuple[ComponentMessage, ...] = getattr(case, self.voice)
        for saying in sayings:
            match = self.pattern.search(f"{saying.who}: {saying.text}" if self.voice == "kubelet" else saying.text)
            if match is None or (self.unless and self.unless.search(saying.text)):
                continue
            words = {name: _short(text) for name, text in match.groupdict().items()}
            fields = {**_names(case), **words}
            return Finding(
                " ".join(self.what.format_map(fields).split()),
                " ".join(self.next.format_map(fields).split()),
                (saying.line,),
                self.certainty,
            )
        return None


@functools.cache
def message_rules() -> tuple[Rule, ...]:
    """The rules of all rows, in their order.

    Raises:
        LabError: a row is not well-formed.
    """
    rows = [row for name in _FILES for row in tomllib.loads(Path(__file__).with_name(name).read_text())["message"]]
    return tuple(_rule(row) for row in rows)


def _rule(row: Mapping[str, Any]) -> Rule:
    if strange := sorted(set(row) - _KEYS):
        raise LabError(f"lab/explain: {row.get('id')}: no such key: {', '.join(strange)}")
    if row["voice"] not in _VOICES:
        raise LabError(f"lab/explain: {row['id']}: nobody speaks as {row['voice']}")
    message = Message(
        voice=row["voice"],
        pattern=re.compile(row["pattern"]),
        unless=re.compile(row["unless"]) if "unless" in row else None,
        what=row["what"],
        next=row["next"],
        certainty=Certainty(row.get("certainty", "certain")),
    )
    stages = tuple(PodStage(stage) for stage in row["stages"])
    return Rule(row["id"], row["title"], stages, row["source"], message, row.get("general", False))


def _names(case: PodContext) -> dict[str, str]:
    return {
        "title": case.title,
        "pod": case.pod.name,
        "namespace": case.pod.namespace,
        "queue": case.queue_name,
        "scheduler": case.pod.scheduler_name,
        "kubectl": case.kubectl(),
    }


def _short(text: str | None) -> str:
    words = " ".join((text or "").split())
    return words if len(words) <= _LONG else words[:_LONG] + "…"
