"""Doctor checks of this machine for a lab file, and the symptoms in their findings."""

from __future__ import annotations

from dataclasses import dataclass

from lab.config import LabSpec
from lab.findings import Finding
from lab.gpu.diagnosis.symptoms import Evidence, match
from lab.host.check import HERE, HostNeeds
from lab.host.checks import doctor
from lab.host.facts import HostFacts, gather
from lab.host.machine import Machine
from lab.host.nvidia.discovery import NvidiaFacts, discover
from lab.tools.process import Runner


@dataclass(frozen=True)
class Examined:
    """Facts of this machine, and the findings of the doctor."""

    facts: HostFacts
    nvidia: NvidiaFacts
    findings: tuple[Finding, ...]

    @property
    def symptoms(self) -> tuple[Finding, ...]:
        """Symptoms in warnings and errors."""
        bad = (finding for finding in self.findings if finding.severity in ("warning", "error"))
        return match(Evidence("doctor", HERE, finding.what) for finding in bad)


def needs_of(spec: LabSpec) -> HostNeeds:
    """Return the requirements of a lab file on the machine."""
    return HostNeeds(
        kubernetes=spec.cluster.kubernetes, engine=spec.cluster.engine, gpu=spec.gpu.mode, strategy=spec.gpu.strategy
    )


def examine(run: Runner, spec: LabSpec, machine: Machine | None = None) -> Examined:
    """Check a machine, by default this one, for a lab file; changes nothing."""
    facts = gather(run, machine)
    return Examined(
        facts,
        discover(run, facts, engine=spec.cluster.engine, machine=machine),
        doctor(facts, run, needs=needs_of(spec), machine=machine),
    )
