"""The step contract: an id, what it needs, and its verbs.

``observe`` alone gives resume, ``status``, ``plan --diff`` and "a second run changes nothing".
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar


class State(enum.Enum):
    """How a step's piece of the lab compares with the plan."""

    ABSENT = "absent"
    DRIFTED = "drifted"
    READY = "ready"


@dataclass(frozen=True)
class Observed:
    """What ``observe`` saw. ``diff`` lines say what differs when the state is DRIFTED."""

    state: State
    detail: str = ""
    diff: tuple[str, ...] = ()

    @classmethod
    def absent(cls, detail: str = "") -> Observed:
        """Not there yet."""
        return cls(State.ABSENT, detail)

    @classmethod
    def ready(cls, detail: str = "") -> Observed:
        """As the plan wants it."""
        return cls(State.READY, detail)

    @classmethod
    def drifted(cls, detail: str, diff: Sequence[str] = ()) -> Observed:
        """There, but not as the plan wants it."""
        return cls(State.DRIFTED, detail, tuple(diff))


@dataclass(frozen=True)
class Effect:
    """One thing a step will do, for ``lab plan``.

    ``where`` is host, lab, node or cluster; host effects carry ``undo``.
    """

    where: str
    what: str
    undo: str = ""


C_contra = TypeVar("C_contra", contravariant=True)


class Step(Protocol[C_contra]):
    """A piece of a lab. ``apply`` is idempotent; ``undo`` succeeds when the piece is already gone."""

    @property
    def id(self) -> str:
        """Stable name, such as ``cluster`` or ``tenant:my-vcluster``."""
        ...

    @property
    def title(self) -> str:
        """A few words for the board."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Ids of the steps that must be ready before this one is applied."""
        ...

    @property
    def part_of(self) -> str:
        """Id of the step whose ``undo`` removes this piece too; empty when only its own does."""
        ...

    def wanted(self) -> object:
        """What the step brings about, to compare it with the same step of another plan."""
        ...

    def effects(self) -> tuple[Effect, ...]:
        """What ``apply`` does to the machine, in words and commands."""
        ...

    def observe(self, ctx: C_contra) -> Observed:
        """Look, without changing anything."""
        ...

    def apply(self, ctx: C_contra) -> None:
        """Bring the piece to where the plan wants it."""
        ...

    def verify(self, ctx: C_contra) -> None:
        """Raise with evidence unless the piece works."""
        ...

    def undo(self, ctx: C_contra) -> None:
        """Remove the piece."""
        ...

    def remains(self, ctx: C_contra) -> Sequence[str]:
        """What is left of the piece, one line each; nothing after an ``undo`` is the proof that it is gone."""
        ...
