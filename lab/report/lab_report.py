"""The data of a report: a lab's facts, its GPUs, its last ``kailab up`` and its last run of the suites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.errors import LabError
from lab.gpu.map.model import GpuMap
from lab.gpu.map.watch import GpuSource
from lab.objects.redact import redact_text
from lab.report.suite_run import SuiteRun, suite_file
from lab.session.lab import Lab
from lab.session.run_history import last_record


@dataclass(frozen=True)
class LabReport:
    """A lab at one moment."""

    lab: str
    facts: Mapping[str, str] = field(default_factory=dict)
    gpus: GpuMap | None = None
    """The GPUs now; None in the report of a test run, or if the cluster does not answer."""
    record: Mapping[str, Any] | None = None
    """The last ``kailab up`` that changed something, as ``lab.session.run_history`` records it."""
    suite: SuiteRun | None = None
    notes: tuple[str, ...] = ()
    """Missing data, and the reasons."""


def report_of(lab: Lab) -> LabReport:
    """The lab now, with the last run of its suites. A cluster that does not answer becomes a note."""
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
    """The GPUs of a lab now, or the reason why they could not be read."""
    try:
        return GpuSource.of(lab.context("gpus")).read(), ""
    except LabError as error:
        return None, redact_text(f"the GPUs could not be read: {error.what}")
