"""A rule: one situation that keeps pods from running, known by its id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lab.explain.finding import Finding, PodStage
from lab.explain.pod_context import PodContext

UNBOUND = (PodStage.UNBOUND,)
BOUND = (PodStage.BOUND,)
WAITING = (PodStage.UNBOUND, PodStage.BOUND)
REFUSED = (PodStage.MISSING, PodStage.UNBOUND)
"""Where a refusal at admission shows: no pod at all, or a tenant's pod that the host did not take."""

Find = Callable[["PodContext"], Finding | None]


@dataclass(frozen=True)
class Rule:
    """One rule. Pure: a function over a frozen Case."""

    id: str
    """``theme.name``; stable, as tests and reports name it."""
    title: str
    """The situation in a few words, for the table of rules."""
    stages: tuple[PodStage, ...]
    """When it is asked."""
    source: str
    """Where the fact comes from: an upstream file, an issue, or what was seen."""
    find: Find
    general: bool = False
    """Only repeats what somebody said: left out when another rule is certain of a reason."""

    @property
    def theme(self) -> str:
        """The first part of the id."""
        return self.id.partition(".")[0]

    def as_json(self) -> dict[str, Any]:
        """The row of this rule in the table of rules."""
        return {
            "id": self.id,
            "title": self.title,
            "stages": [stage.value for stage in self.stages],
            "source": self.source,
            "general": self.general,
        }

    def apply(self, case: PodContext) -> Finding | None:
        """The finding with this rule's id, or None."""
        if case.stage not in self.stages:
            return None
        found = self.find(case)
        return None if found is None else replace(found, rule=self.id, side=found.side or case.side)


def rule(
    rule_id: str, title: str, stages: tuple[PodStage, ...], source: str, *, general: bool = False
) -> Callable[[Find], Rule]:
    """Make a Rule of a function over a Case."""

    def make(find: Find) -> Rule:
        return Rule(rule_id, title, stages, source, find, general)

    return make
