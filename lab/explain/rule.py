"""Rules about pods, and the decorator that registers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from lab.explain.explanation import PodStage
from lab.explain.pod_context import PodContext
from lab.findings import Certainty, Finding, Registry, Rule, Severity, title_of

UNBOUND = (PodStage.UNBOUND,)
BOUND = (PodStage.BOUND,)
WAITING = (PodStage.UNBOUND, PodStage.BOUND)
STARTED = (PodStage.BOUND, PodStage.RUNNING)
ALIVE = (PodStage.UNBOUND, *STARTED)
FAILED = (PodStage.FAILED,)
REFUSED = (PodStage.MISSING, PodStage.UNBOUND)
"""Stages in which admission has refused a pod: no pod at all, or a tenant's pod that the host refused."""

_SEVERITIES: Mapping[Certainty, Severity] = MappingProxyType(
    {Certainty.CERTAIN: "error", Certainty.LIKELY: "warning", Certainty.POSSIBLE: "note"}
)

Find = Callable[[PodContext], Finding | None]


@dataclass(frozen=True)
class PodRule(Rule[[PodContext]]):
    """A rule about one pod; its id is ``theme.name``."""

    stages: tuple[PodStage, ...] = ()
    """Stages of a pod in which it applies."""

    @property
    def theme(self) -> str:
        return self.id.partition(".")[0]

    def apply(self, ctx: PodContext) -> tuple[Finding, ...]:
        """Return its findings on a pod in one of its stages; the less certain, the less severe."""
        if ctx.stage not in self.stages:
            return ()
        return tuple(
            replace(one, subject=ctx.title, side=one.side or ctx.side, severity=_SEVERITIES[one.certainty])
            for one in super().apply(ctx)
        )

    JSON = f"{Rule.JSON} stages"


RULES: Registry[PodRule] = Registry("explain")
"""The rules of ``lab/explain/rules``, in the order of their definition."""


def rule(
    rule_id: str, stages: tuple[PodStage, ...], source: str, *, general: bool = False, read_only: str = ""
) -> Callable[[Find], Find]:
    """Register the decorated function as a rule; its docstring begins with the rule's title (``title_of``).

    ``read_only``: why no scenario of ``scripts/scenarios`` captures it from a real cluster.
    """

    def register(find: Find) -> Find:
        RULES.add(PodRule(rule_id, title_of(find), find, source, general, read_only=read_only, stages=stages))
        return find

    return register
