"""What a rule has found, and its JSON."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Literal

Severity = Literal["error", "warning", "note", "ok", "skipped"]
"""error: it does not work; warning: it may not; note: good to know; skipped: the question does not arise."""


class Certainty(StrEnum):
    """How sure a finding is."""

    CERTAIN = "certain"
    """A component reports it, or the objects prove it."""
    LIKELY = "likely"
    """It fits all that is seen."""
    POSSIBLE = "possible"
    """It would explain it, and nothing proves it."""


@dataclass(frozen=True)
class Finding:
    """One thing that a rule has found.

    A rule gives ``what`` and ``next``, and more where it knows more; ``Rule.apply`` adds id, title and source.
    """

    what: str
    """One sentence."""
    next: str = ""
    """One next action."""
    evidence: tuple[str, ...] = ()
    """What proves it, a line each."""
    certainty: Certainty = Certainty.CERTAIN
    severity: Severity = "error"
    subject: str = ""
    """What it is about: an object, a node, a GPU."""
    rule: str = ""
    """Id of the rule."""
    title: str = ""
    """The situation in a few words: the rule's title."""
    source: str = ""
    """Where the rule's fact comes from."""
    side: str = ""
    """The cluster it was seen in: ``host``, ``tenant NAME``; empty where there is only one."""
    fix_id: str = ""
    """The fix of this machine that ``lab up`` can apply."""
    file: str = ""
    line: int = 0
    at: tuple[str | int, ...] = ()
    """Path of the value in the object; ``file`` and ``line`` locate it."""

    def as_json(self) -> dict[str, Any]:
        always = ("rule", "severity", "subject", "title", "what", "evidence", "next", "source", "certainty")
        data = {
            name: getattr(self, name) for name in (*always, *(f.name for f in fields(Finding) if f.name not in always))
        }
        data |= {"evidence": list(self.evidence), "at": ".".join(map(str, self.at))}
        return {"field" if name == "at" else name: value for name, value in data.items() if name in always or value}
