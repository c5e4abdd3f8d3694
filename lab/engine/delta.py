"""The difference of two plans: plan(after) − plan(before)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from lab.engine.step import Step

C = TypeVar("C")


@dataclass(frozen=True)
class PlanDelta(Generic[C]):
    """The steps to undo and to apply, each in the order of its plan.

    Steps with the same id correspond; a step is changed if its ``Step.wanted`` differs. ``kailab tenant add`` applies
    new and changed steps; ``kailab tenant remove`` undoes removed steps and applies changed ones; ``kailab down``
    undoes all.
    """

    gone: tuple[Step[C], ...]
    """Steps of the plan before that the plan after lacks."""
    applied: tuple[Step[C], ...]
    """Steps of the plan after that are new or changed."""

    @classmethod
    def between(cls, before: Sequence[Step[C]], after: Sequence[Step[C]]) -> PlanDelta[C]:
        """The difference of the steps of two plans."""
        old = {step.id: step for step in before}
        new = {step.id for step in after}
        return cls(
            gone=tuple(step for step in before if step.id not in new),
            applied=tuple(step for step in after if step.id not in old or old[step.id].wanted() != step.wanted()),
        )
