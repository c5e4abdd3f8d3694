"""What leads from one plan to another: plan(after) − plan(before)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from lab.engine.step import Step

C = TypeVar("C")


@dataclass(frozen=True)
class PlanDelta(Generic[C]):
    """The steps to undo and to apply, each in the order of its plan.

    A step is the same in both plans when it has the same id, and changed when it wants something else
    (``Step.wanted``). ``lab tenant add`` applies what is new or changed; ``lab tenant remove`` undoes what is gone and
    applies what changed; ``lab down`` undoes everything.
    """

    gone: tuple[Step[C], ...]
    """Steps of the plan before that are not in the plan after."""
    applied: tuple[Step[C], ...]
    """Steps of the plan after that are new or changed."""

    @classmethod
    def between(cls, before: Sequence[Step[C]], after: Sequence[Step[C]]) -> PlanDelta[C]:
        """What leads from the steps of one plan to those of another."""
        old = {step.id: step for step in before}
        new = {step.id for step in after}
        return cls(
            gone=tuple(step for step in before if step.id not in new),
            applied=tuple(step for step in after if step.id not in old or old[step.id].wanted() != step.wanted()),
        )
