"""The doctor's checks: what they look at, their registry, and what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from lab.findings import Finding, Registry, Rule, Severity
from lab.host.facts import HostFacts
from lab.host.machine import Machine
from lab.host.sources import PackageSource
from lab.tools.process import Runner

HERE = "this machine"
"""Subject of what the doctor finds."""


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


Find = Callable[[Look], Iterator[Finding]]

CHECKS: Registry[Rule[[Look]]] = Registry("host checks")
"""All checks in the order in which they are shown."""


def check(name: str, title: str, *, advisory: bool = False) -> Callable[[Find], Find]:
    """Put the decorated function into the registry. Without what it asks for no lab comes up, unless ``advisory``."""

    def enter(find: Find) -> Find:
        CHECKS.add(Rule(name, title, find, advisory=advisory))
        return find

    return enter


def ok(what: str) -> Finding:
    """All is well."""
    return _finding("ok", what)


def skip(what: str) -> Finding:
    """The question does not arise."""
    return _finding("skipped", what)


def fail(what: str, fix: str, fix_id: str = "") -> Finding:
    """Something is missing; a warning where the check is advisory."""
    return _finding("error", what, fix, fix_id)


def warn(what: str, fix: str, fix_id: str = "") -> Finding:
    """It may go well."""
    return _finding("warning", what, fix, fix_id)


def _finding(severity: Severity, what: str, fix: str = "", fix_id: str = "") -> Finding:
    return Finding(what, fix, severity=severity, subject=HERE, fix_id=fix_id)
