"""What the verbs of a lab give back: frozen, printable by the faces, plain data for ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.engine.run import RunRecord
from lab.engine.step import Observed, State
from lab.findings import Finding
from lab.operations.planning import Plan


@dataclass(frozen=True)
class PlanReport:
    """What ``lab up`` would do. ``seen`` is how each step stands now; ``estimate`` in seconds, from earlier runs."""

    plan: Plan
    seen: Mapping[str, Observed]
    findings: tuple[Finding, ...]
    estimate: float | None

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        data = self.plan.as_json()
        for step in data["steps"]:
            seen = self.seen.get(step["id"])
            step["state"] = seen.state.value if seen else "unknown"
            step["detail"] = seen.detail if seen else ""
            step["diff"] = list(seen.diff) if seen else []
        return {**data, "estimate_seconds": self.estimate, "doctor": [finding.as_json() for finding in self.findings]}


@dataclass(frozen=True)
class UpReport:
    """How ``lab up`` went."""

    name: str
    record: RunRecord
    facts: Mapping[str, str]
    notices: tuple[str, ...]
    kubeconfig: Path
    tenants: Mapping[str, Path]

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "lab": self.name,
            "ok": self.record.ok,
            "changed": self.record.changed,
            "seconds": round(self.record.seconds, 2),
            "facts": dict(self.facts),
            "notices": list(self.notices),
            "kubeconfig": str(self.kubeconfig),
            "tenants": {name: str(path) for name, path in self.tenants.items()},
            "steps": [
                {"step": s.step, "outcome": s.outcome, "seconds": round(s.seconds, 2)} for s in self.record.steps
            ],
        }


@dataclass(frozen=True)
class StatusReport:
    """How a lab stands now."""

    name: str
    facts: Mapping[str, str]
    steps: tuple[tuple[str, str, Observed], ...]
    notices: tuple[str, ...]
    tenants: Mapping[str, Path]
    kubeconfig: Path

    @property
    def ok(self) -> bool:
        """Whether every step is ready."""
        return all(seen.state is State.READY for _, _, seen in self.steps)

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "lab": self.name,
            "ok": self.ok,
            "facts": dict(self.facts),
            "notices": list(self.notices),
            "kubeconfig": str(self.kubeconfig),
            "tenants": {name: str(path) for name, path in self.tenants.items()},
            "steps": [
                {"id": i, "title": t, "state": seen.state.value, "detail": seen.detail, "diff": list(seen.diff)}
                for i, t, seen in self.steps
            ],
        }


@dataclass(frozen=True)
class DownReport:
    """What ``lab down`` took away and what stays: ``kept`` on purpose, ``left`` against the will."""

    name: str
    seconds: float
    kept: tuple[str, ...]
    left: tuple[str, ...]
    host_undone: tuple[str, ...]
    host_changes: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "lab": self.name,
            "seconds": round(self.seconds, 2),
            "kept": list(self.kept),
            "left": list(self.left),
            "host_undone": list(self.host_undone),
            "host_changes": list(self.host_changes),
        }
