"""What a doctor's check is and what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from lab.host.facts import HostFacts
from lab.host.machine import Machine
from lab.host.sources import PackageSource
from lab.tools.process import Runner

Level = Literal["ok", "warn", "fail", "skip"]


@dataclass(frozen=True)
class HostNeeds:
    """What the lab to be made asks of the machine; empty values are not known yet.

    ``engine``, ``gpu`` and ``strategy`` (gpu.strategy) are the lab file's words."""

    kubernetes: str = ""
    engine: str = "auto"
    gpu: str = "auto"
    strategy: str = "auto"


@dataclass(frozen=True)
class Look:
    """What a check may look at."""

    facts: HostFacts
    run: Runner
    machine: Machine
    needs: HostNeeds = HostNeeds()
    reach: Mapping[PackageSource, str] = field(default_factory=dict)

    def reachable(self, kind: str) -> bool:
        """Whether a place of this kind answered."""
        return any(source.kind == kind and not why for source, why in self.reach.items())


@dataclass(frozen=True)
class Finding:
    """What one look found. ``fix`` is text to follow or paste, ``fix_id`` a fix that ``lab up`` can apply."""

    level: Level
    what: str
    fix: str = ""
    fix_id: str | None = None


@dataclass(frozen=True)
class Verdict:
    """A check's finding, with the check's id and title."""

    check: str
    title: str
    level: Level
    what: str
    fix: str = ""
    fix_id: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The verdict as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Check:
    """One question to the machine. Without what is ``required`` no lab comes up; ``advised`` only warns."""

    id: str
    title: str
    severity: Literal["required", "advised"]
    look: Callable[[Look], Iterator[Finding]]

    def verdicts(self, at: Look) -> tuple[Verdict, ...]:
        """Ask, and say one thing or more."""
        found = []
        for finding in self.look(at):
            level: Level = "warn" if finding.level == "fail" and self.severity == "advised" else finding.level
            found.append(Verdict(self.id, self.title, level, finding.what, finding.fix, finding.fix_id))
        return tuple(found)


CHECKS: dict[str, Check] = {}
"""All checks in the order in which they are shown."""


def check(
    name: str, title: str, severity: Literal["required", "advised"] = "required"
) -> Callable[[Callable[[Look], Iterator[Finding]]], Callable[[Look], Iterator[Finding]]]:
    """Put the decorated function into the registry."""

    def enter(look: Callable[[Look], Iterator[Finding]]) -> Callable[[Look], Iterator[Finding]]:
        CHECKS[name] = Check(name, title, severity, look)
        return look

    return enter


def ok(what: str) -> Finding:
    """All is well."""
    return Finding("ok", what)


def skip(what: str) -> Finding:
    """The question does not arise."""
    return Finding("skip", what)


def fail(what: str, fix: str, fix_id: str | None = None) -> Finding:
    """Something is missing; a warning where the check is only advised."""
    return Finding("fail", what, fix, fix_id)


def warn(what: str, fix: str, fix_id: str | None = None) -> Finding:
    """It may go well."""
    return Finding("warn", what, fix, fix_id)
