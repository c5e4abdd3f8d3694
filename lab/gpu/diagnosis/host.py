"""What the doctor finds on this machine for a lab file: facts, verdicts, and the known failures in these."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab.config import LabSpec
from lab.gpu.diagnosis.symptoms import Evidence, SymptomMatch, match
from lab.host import HostFacts, HostNeeds, Machine, Verdict, doctor, gather
from lab.host.nvidia.discovery import NvidiaFacts, discover
from lab.tools.process import Runner

HERE = "this machine"


@dataclass(frozen=True)
class Examined:
    """This machine, as it was found."""

    facts: HostFacts
    nvidia: NvidiaFacts
    verdicts: tuple[Verdict, ...]

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What is not good, as evidence."""
        return evidence_of(self.verdicts)

    @property
    def symptoms(self) -> tuple[SymptomMatch, ...]:
        """The known failures in it."""
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


def evidence_of(verdicts: Iterable[Verdict]) -> tuple[Evidence, ...]:
    """What verdicts say that are not good."""
    return tuple(Evidence("doctor", HERE, verdict.what) for verdict in verdicts if verdict.level in ("warn", "fail"))
