"""Rules described for people: the situation, its meaning, the cure, the source, and a real example."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lab.findings.pattern_rules import PatternRule

EXAMPLES = Path(__file__).with_name("examples.json")
"""Examples by area and id; ``scripts/docs/examples.py`` writes them from captured clusters and recorded messages."""

_SAID = re.compile(
    r"(?:event \w+ \([^)]*\) at [\d:]+(?: ×\d+)?|condition [^:]+|(?:PodGroup|BindRequest) [^:]+: \w+|pod status): (.+)"
)
"""Evidence that repeats the message of a component."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_WORDS: Mapping[str, str] = MappingProxyType({"title": "the pod", "kubectl": "kubectl"})


@dataclass(frozen=True)
class Example:
    """A finding of the rule on a real cluster, message or manifest."""

    origin: str
    """The source of ``input`` and ``evidence``: a captured cluster, a recorded message, a manifest."""
    what: str
    next: str = ""
    input: str = ""
    """The message or the manifest; empty for a captured cluster."""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class RuleDescription:
    """One rule, symptom, check, invariant or known defect."""

    area: str
    """The folder of its page: ``lint``, ``explain``, ``doctor``, ``symptom``, ``invariant`` or ``defect``."""
    id: str
    title: str
    meaning: str = ""
    next: str = ""
    source: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What else is known of it, such as stages or releases: heading → text."""
    example: Example | None = None

    @property
    def error_text(self) -> str:
        """The text that people meet and search for; the title if the rule has none."""
        if self.example is None:
            return self.title
        seen = (match[1] for line in self.example.evidence if (match := _SAID.match(line)))
        if self.area == "lint":
            return self.example.what
        if self.area == "defect":
            return self.example.input or self.title
        return self.example.input or next(seen, "") or self.title

    @property
    def page(self) -> str:
        """Path of its page on the documentation site."""
        return f"reference/rules/{self.area}/{self.id}"

    @classmethod
    def of_pattern(cls, area: str, row: PatternRule, facts: Mapping[str, str]) -> RuleDescription:
        """Describe a rule that matches text."""
        patterns = {"matches": " or ".join(pattern.pattern for pattern in row.patterns)}
        meaning, action = (_PLACEHOLDER.sub(_word, " ".join(text.split())) for text in (row.what, row.next))
        return cls(area, row.id, row.title, meaning, action, row.source, {**facts, **patterns}, example(area, row.id))


def _word(match: re.Match[str]) -> str:
    return _WORDS.get(match[1], match[1].upper())


def example(area: str, rule: str) -> Example | None:
    """Return the example of a rule; None if nothing was captured or recorded."""
    found = _examples().get(f"{area}/{rule}")
    return Example(**{**found, "evidence": tuple(found.get("evidence", ()))}) if found else None


@functools.cache
def _examples() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    return data
