"""The result of a rule, and its JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal

Severity = Literal["error", "warning", "note", "ok", "skipped"]
"""error: does not work; warning: may not work; note: for information; skipped: the check does not apply."""


class Certainty(StrEnum):
    """How well the evidence supports a finding."""

    CERTAIN = "certain"
    """A component reports it, or the objects prove it."""
    LIKELY = "likely"
    """Consistent with everything that was read."""
    POSSIBLE = "possible"
    """A possible explanation without proof."""


@dataclass(frozen=True)
class Finding:
    """One result of a rule.

    A rule sets ``what`` and ``next``, and more where it can; ``Rule.apply`` adds id, title and source.
    """

    what: str
    """One sentence."""
    next: str = ""
    """One next action."""
    evidence: tuple[str, ...] = ()
    """The proof, line by line."""
    certainty: Certainty = Certainty.CERTAIN
    severity: Severity = "error"
    subject: str = ""
    """The object, node or GPU concerned."""
    rule: str = ""
    """Id of the rule."""
    title: str = ""
    """The rule's title: the situation in a few words."""
    source: str = ""
    """The source of the rule's fact."""
    read_only: str = ""
    """Of a rule that rests on reading sources alone: why nobody has captured its situation."""
    side: str = ""
    """The cluster: ``host`` or ``tenant NAME``; empty if only one cluster was read."""
    fix_id: str = ""
    """The host fix that ``kailab up`` can apply."""
    file: str = ""
    line: int = 0
    at: tuple[str | int, ...] = ()
    """Path of the value in the object, located by ``file`` and ``line``."""

    @property
    def place(self) -> str:
        """``at`` as text: ``spec.containers.0.image``."""
        return ".".join(map(str, self.at))

    JSON: ClassVar = (
        "rule severity subject title what evidence next source certainty read_only? side? fix_id? file? line? "
        "field=place?"
    )
