"""A rule about pods, and the decorator that registers one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from lab.explain.explanation import PodStage
from lab.explain.pod_context import PodContext
from lab.findings import Certainty, Finding, Registry, Rule, Severity

UNBOUND = (PodStage.UNBOUND,)
BOUND = (PodStage.BOUND,)
WAITING = (PodStage.UNBOUND, PodStage.BOUND)
REFUSED = (PodStage.MISSING, PodStage.UNBOUND)
"""Where a refusal at admission shows: no pod at all, or a tenant's pod that the host did not take."""

_SEVERITIES: Mapping[Certainty, Severity] = MappingProxyType(
    {Certainty.CERTAIN: "error", Certainty.LIKELY: "warning", Certainty.POSSIBLE: "note"}
)

Find = Callable[[PodContext], Finding | None]


@dataclass(frozen=True)
class PodRule(Rule[[PodContext]]):
    """A rule about one pod; its id is ``theme.name``."""

    stages: tuple[PodStage, ...] = ()
    """When it is asked."""

    @property
    def theme(self) -> str:
        """The first part of the id."""
        return self.id.partition(".")[0]

    def apply(self, case: PodContext) -> tuple[Finding, ...]:
        """What it finds in a pod of one of its stages; the less certain, the less severe."""
        if case.stage not in self.stages:
            return ()
        return tuple(
            replace(one, subject=case.title, side=one.side or case.side, severity=_SEVERITIES[one.certainty])
            for one in super().apply(case)
        )

    def as_json(self) -> dict[str, Any]:
        """The row of this rule in the table of rules."""
        return {**super().as_json(), "stages": [stage.value for stage in self.stages]}


RULES: Registry[PodRule] = Registry("explain")
"""The rules of ``lab/explain/rules``, in the order in which they are defined."""


def rule(
    rule_id: str, title: str, stages: tuple[PodStage, ...], source: str, *, general: bool = False
) -> Callable[[Find], Find]:
    """Put the decorated function into the registry."""

    def enter(find: Find) -> Find:
        RULES.add(PodRule(rule_id, title, find, source, general, stages=stages))
        return find

    return enter
