"""Results of the lab operations: immutable, rendered by ``lab.ui``, printed by ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.engine.run import RunRecord
from lab.engine.step import Effect, Observed, ObservedStep, State
from lab.findings import Finding
from lab.operations.abandoned import Abandoned
from lab.operations.planning import Plan
from lab.operations.preview import Preview
from lab.operations.ways import Ways


@dataclass(frozen=True)
class PlannedStep:
    """A step of a plan; ``seen`` is its state where it was observed."""

    id: str
    title: str
    needs: tuple[str, ...]
    effects: tuple[Effect, ...]
    seen: Observed | None

    @property
    def state(self) -> str:
        """absent, drifted, ready or unknown."""
        return self.seen.state.value if self.seen else "unknown"

    @property
    def detail(self) -> str:
        return self.seen.detail if self.seen else ""

    @property
    def diff(self) -> tuple[str, ...]:
        return self.seen.diff if self.seen else ()

    JSON = "id title needs effects state detail diff"


@dataclass(frozen=True)
class PlanReport:
    """Result of ``kailab plan``: ``seen`` has each step's state by id; ``estimate`` in seconds, from earlier runs."""

    plan: Plan
    seen: Mapping[str, Observed]
    findings: tuple[Finding, ...]
    estimate: float | None
    ways: Ways
    preview: Preview | None = None
    """Of an existing cluster."""

    @property
    def steps(self) -> tuple[PlannedStep, ...]:
        return tuple(
            PlannedStep(step.id, step.title, tuple(step.needs), tuple(step.effects()), self.seen.get(step.id))
            for step in self.plan.steps
        )

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(str(choice.item) for choice in self.plan.missing)

    JSON = (
        "lab=plan.spec.name facts=plan.facts notices=plan.notices steps supply=plan.choices missing "
        "estimate_seconds=estimate doctor=findings builds=ways.builds existing=preview"
    )


@dataclass(frozen=True)
class UpReport:
    """Result of ``kailab up``."""

    name: str
    record: RunRecord
    facts: Mapping[str, str]
    notices: tuple[str, ...]
    kubeconfig: Path
    tenants: Mapping[str, Path]

    JSON = (
        "lab=name ok=record.ok changed=record.changed seconds=record.seconds facts notices kubeconfig tenants "
        "steps=record.steps"
    )


@dataclass(frozen=True)
class StatusReport:
    """Result of ``kailab status``."""

    name: str
    facts: Mapping[str, str]
    steps: tuple[ObservedStep, ...]
    notices: tuple[str, ...]
    tenants: Mapping[str, Path]
    kubeconfig: Path
    abandoned: tuple[Abandoned, ...] = ()
    """What killed test runs and commands left."""

    @property
    def ok(self) -> bool:
        return all(step.seen.state is State.READY for step in self.steps)

    JSON = "lab=name ok facts notices kubeconfig tenants steps abandoned"


@dataclass(frozen=True)
class PauseReport:
    """Result of ``kailab pause`` and ``kailab resume``: how many nodes were frozen or continued, and in what time."""

    name: str
    paused: bool
    nodes: int
    seconds: float

    JSON = "lab=name paused nodes seconds"


@dataclass(frozen=True)
class DownReport:
    """Result of ``kailab down`` that has left nothing but what is ``kept`` on purpose."""

    name: str
    seconds: float
    kept: tuple[str, ...]
    host_undone: tuple[str, ...]
    host_changes: tuple[str, ...] = ()

    @property
    def left(self) -> tuple[str, ...]:
        """Nothing: with something left, down raises Leftovers."""
        return ()

    JSON = "lab=name seconds kept left host_undone host_changes"
