"""What the doctor finds on this machine for a lab file: facts, findings, and the known failures in these."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab.config import LabSpec
from lab.findings import Finding
from lab.gpu.diagnosis.symptoms import Evidence, match
from lab.host import HostFacts, HostNeeds, Machine, doctor, gather
from lab.host.check import HERE
from lab.host.nvidia.discovery import NvidiaFacts, discover
from lab.tools.process import Runner


@dataclass(frozen=True)
class Examined:
    """This machine, as it was found."""

    facts: HostFacts
    nvidia: NvidiaFacts
    findings: tuple[Finding, ...]

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What is not good, as evidence."""
        return evidence_of(self.findings)

    @property
    def symptoms(self) -> tuple[Finding, ...]:
        return match(self.evidence)


def needs_of(spec: LabSpec) -> HostNeeds:
    """What a lab file asks of the machine."""
    return HostNeeds(
        kubernetes=spec.cluster.kubernetes, engine=spec.cluster.engine, gpu=spec.gpu.mode, strategy=spec.gpu.strategy
    )


def examine(run: Runner, spec: LabSpec, machine: Machine | None = None) -> Examined:
    """Look at the machine and judge it for a lab file; changes nothing.

    Args:
        run: how programs are asked.
        spec: the lab file.
        machine: where files are read; this machine unless told.
    """
    facts = gather(run, machine)
    return Examined(
        facts,
        discover(run, facts, engine=spec.cluster.engine, machine=machine),
        doctor(facts, run, needs=needs_of(spec), machine=machine),
    )


def evidence_of(findings: Iterable[Finding]) -> tuple[Evidence, ...]:
    """What findings say that are not good."""
    return tuple(Evidence("doctor", HERE, one.what) for one in findings if one.severity in ("warning", "error"))
