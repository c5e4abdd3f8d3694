"""Results of the lab operations: immutable, rendered by ``lab.ui``, printed by ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from lab.engine.run import RunRecord
from lab.engine.step import Observed, ObservedStep, State
from lab.findings import Finding
from lab.operations.abandoned import Abandoned
from lab.operations.planning import Plan, PlannedStep
from lab.operations.preview import Preview
from lab.operations.ways import Ways


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
        return tuple(replace(step, seen=self.seen.get(step.id)) for step in self.plan.planned)

    JSON = (
        "lab=plan.spec.name facts=plan.facts notices=plan.notices steps supply=plan.choices missing=plan.missing_items "
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
    left: tuple[str, ...] = ()
    """With something left, down raises Leftovers."""

    JSON = "lab=name seconds kept left host_undone host_changes"
