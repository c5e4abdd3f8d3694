"""The doctor's checks: their input, their registry and the findings they produce."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from lab.findings import Finding, Registry, Rule, Severity
from lab.host.facts import HostFacts
from lab.host.machine import Machine
from lab.host.sources import PackageSource
from lab.tools.process import Runner

HERE = "this machine"
"""Subject of the doctor's findings."""


@dataclass(frozen=True)
class HostNeeds:
    """Requirements of the planned lab, in the lab file's terms; ``kubernetes`` is empty if unknown."""

    kubernetes: str = ""
    engine: str = "auto"
    gpu: str = "auto"
    strategy: str = "auto"


@dataclass(frozen=True)
class CheckContext:
    """Input of a check; ``reach`` maps each package source to why it is unreachable, or an empty text."""

    facts: HostFacts
    run: Runner
    machine: Machine
    needs: HostNeeds = HostNeeds()
    reach: Mapping[PackageSource, str] = field(default_factory=dict)

    def reachable(self, kind: str) -> bool:
        """Whether a source of this kind answered."""
        return any(source.kind == kind and not why for source, why in self.reach.items())


Check = Callable[[CheckContext], Iterator[Finding]]

CHECKS: Registry[Rule[[CheckContext]]] = Registry("host checks")
"""All checks in display order."""


def check(name: str, title: str, *, advisory: bool = False) -> Callable[[Check], Check]:
    """Register the decorated check. Its errors prevent a lab unless it is ``advisory``."""

    def register(function: Check) -> Check:
        CHECKS.add(Rule(name, title, function, advisory=advisory))
        return function

    return register


def ok(what: str) -> Finding:
    """A finding of a passed check."""
    return _finding("ok", what)


def skip(what: str) -> Finding:
    """A finding of a check that does not apply."""
    return _finding("skipped", what)


def fail(what: str, fix: str, fix_id: str = "") -> Finding:
    """A finding of a failed check; a warning if the check is advisory."""
    return _finding("error", what, fix, fix_id)


def warn(what: str, fix: str) -> Finding:
    """A finding of something that may cause a failure."""
    return _finding("warning", what, fix)


def _finding(severity: Severity, what: str, fix: str = "", fix_id: str = "") -> Finding:
    return Finding(what, fix, severity=severity, subject=HERE, fix_id=fix_id)
