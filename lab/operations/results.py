"""Results of the lab operations: immutable, rendered by ``lab.ui``, printed by ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.engine.run import RunRecord
from lab.engine.step import Observed, State
from lab.findings import Finding
from lab.operations.abandoned import Abandoned
from lab.operations.planning import Plan
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

    def as_json(self) -> dict[str, Any]:
        data = self.plan.as_json()
        for step in data["steps"]:
            seen = self.seen.get(step["id"])
            step |= vars(seen) if seen else {"state": "unknown", "detail": "", "diff": []}
        more = {"doctor": self.findings, "builds": self.ways.builds, "existing": self.preview}
        return {**data, "estimate_seconds": self.estimate, **more}


@dataclass(frozen=True)
class UpReport:
    """Result of ``kailab up``."""

    name: str
    record: RunRecord
    facts: Mapping[str, str]
    notices: tuple[str, ...]
    kubeconfig: Path
    tenants: Mapping[str, Path]

    def as_json(self) -> dict[str, Any]:
        return {
            "lab": self.name,
            "ok": self.record.ok,
            "changed": self.record.changed,
            "seconds": round(self.record.seconds, 2),
            "facts": self.facts,
            "notices": self.notices,
            "kubeconfig": self.kubeconfig,
            "tenants": self.tenants,
            "steps": self.record.steps,
        }


@dataclass(frozen=True)
class StatusReport:
    """Result of ``kailab status``; a step is its id, title and state."""

    name: str
    facts: Mapping[str, str]
    steps: tuple[tuple[str, str, Observed], ...]
    notices: tuple[str, ...]
    tenants: Mapping[str, Path]
    kubeconfig: Path
    abandoned: tuple[Abandoned, ...] = ()
    """What killed test runs and commands left."""

    @property
    def ok(self) -> bool:
        return all(seen.state is State.READY for _, _, seen in self.steps)

    def as_json(self) -> dict[str, Any]:
        return {
            "lab": self.name,
            "ok": self.ok,
            "facts": self.facts,
            "notices": self.notices,
            "kubeconfig": self.kubeconfig,
            "tenants": self.tenants,
            "steps": [{"id": step, "title": title, **vars(seen)} for step, title, seen in self.steps],
            "abandoned": self.abandoned,
        }


@dataclass(frozen=True)
class PauseReport:
    """Result of ``kailab pause`` and ``kailab resume``: how many nodes were frozen or continued, and in what time."""

    name: str
    paused: bool
    nodes: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return {"lab": self.name, "paused": self.paused, "nodes": self.nodes, "seconds": round(self.seconds, 2)}


@dataclass(frozen=True)
class DownReport:
    """Result of ``kailab down`` that has left nothing but what is ``kept`` on purpose."""

    name: str
    seconds: float
    kept: tuple[str, ...]
    host_undone: tuple[str, ...]
    host_changes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "lab": self.name,
            "seconds": round(self.seconds, 2),
            "kept": self.kept,
            "left": (),  # with something left, down raises Leftovers
            "host_undone": self.host_undone,
            "host_changes": self.host_changes,
        }
