"""The step contract: an id, its needs and its verbs.

``observe`` alone gives resume, ``status``, ``plan --diff`` and "a second run changes nothing".
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar


class State(enum.Enum):
    """A step's objects compared with the plan."""

    ABSENT = "absent"
    DRIFTED = "drifted"
    READY = "ready"


@dataclass(frozen=True)
class Observed:
    """Result of ``observe``; ``diff`` has lines for the state DRIFTED."""

    state: State
    detail: str = ""
    diff: tuple[str, ...] = ()

    @classmethod
    def absent(cls, detail: str = "") -> Observed:
        return cls(State.ABSENT, detail)

    @classmethod
    def ready(cls, detail: str = "") -> Observed:
        return cls(State.READY, detail)

    @classmethod
    def drifted(cls, detail: str, diff: Sequence[str] = ()) -> Observed:
        return cls(State.DRIFTED, detail, tuple(diff))


@dataclass(frozen=True)
class ObservedStep:
    """A step with its state."""

    id: str
    title: str
    seen: Observed

    JSON = "id title *seen"


@dataclass(frozen=True)
class Effect:
    """A change that a step makes, for ``kailab plan``; ``where`` is host, lab, node or cluster."""

    where: str
    what: str
    undo: str = ""


C_contra = TypeVar("C_contra", contravariant=True)


class Step(Protocol[C_contra]):
    """A part of a lab. ``apply`` is idempotent; ``undo`` succeeds if the objects are already gone."""

    @property
    def id(self) -> str:
        """Stable id, such as ``cluster`` or ``tenant:my-vcluster``."""

    @property
    def title(self) -> str:
        """Title on the board."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Ids of the steps that must be ready before ``apply``."""

    @property
    def part_of(self) -> str:
        """Id of the step whose ``undo`` also removes these objects; empty if only its own does."""

    def wanted(self) -> object:
        """The desired state, for comparison with the same step of another plan."""

    def effects(self) -> tuple[Effect, ...]:
        """Descriptions of what ``apply`` changes."""

    def observe(self, ctx: C_contra) -> Observed:
        """Compare the objects with the plan; read-only."""

    def apply(self, ctx: C_contra) -> None:
        """Create or update the objects."""

    def verify(self, ctx: C_contra) -> None:
        """Raise with evidence unless the objects work."""

    def undo(self, ctx: C_contra) -> None:
        """Remove the objects."""

    def remains(self, ctx: C_contra) -> Sequence[str]:
        """One line per object that still exists; empty after a complete ``undo``."""
