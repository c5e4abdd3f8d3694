"""What a report tells about a lab: its facts, its GPUs, how it was brought up, its last run of the suites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.errors import LabError
from lab.gpu.map.model import GpuMap
from lab.gpu.map.watch import GpuSource
from lab.report.scrub import scrub
from lab.report.suite_run import SuiteRun, suite_file
from lab.report.timing_chart import last_record
from lab.session.lab import Lab


@dataclass(frozen=True)
class LabReport:
    """A lab at one moment."""

    lab: str
    facts: Mapping[str, str] = field(default_factory=dict)
    gpus: GpuMap | None = None
    """How the GPUs stand now; None where a report is about a run that is over, or nobody answered."""
    record: Mapping[str, Any] | None = None
    """The last run of ``lab up`` that did something, as ``lab.session.run_history`` keeps it."""
    suite: SuiteRun | None = None
    """The last run of the suites."""
    notes: tuple[str, ...] = ()
    """What is missing, and why."""


def situation_of(lab: Lab) -> LabReport:
    """The lab as it stands, with the last run of its suites. Never raises for a cluster that does not answer."""
    gpus, why = gpus_of(lab)
    return LabReport(
        lab=lab.paths.name,
        facts=lab.facts(),
        gpus=gpus,
        record=last_record(lab.paths.runs),
        suite=SuiteRun.load(suite_file(lab.paths)),
        notes=(why,) if why else (),
    )


def gpus_of(lab: Lab) -> tuple[GpuMap | None, str]:
    """The GPUs of a lab now, or why they could not be read: a report is written all the same."""
    try:
        return GpuSource.of(lab.context("gpus")).read(), ""
    except LabError as error:
        return None, scrub(f"the GPUs could not be read: {error.what}")
