"""The doctor's findings about a lab that is not up: this machine, and the way of each item of the lab."""

from __future__ import annotations

from lab.config import LabSpec
from lab.errors import LabError
from lab.findings import Finding
from lab.operations.prepare import prepare
from lab.operations.ways import Ways, supply_finding
from lab.session.lab import Lab


def with_ways(spec: LabSpec, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Add the ways of the lab's items to findings about the machine; missing build tools count only if one is built."""
    lab = Lab.of(spec)
    try:
        plan, _ = prepare(lab)
    except LabError as error:
        return (*findings, supply_finding("warning", error.what, error.fix))
    ways = Ways.of(plan.choices, lab.session.supply)
    kept = (one for one in findings if ways.may_build or one.rule != "build-tools")
    return (*kept, *ways.findings())
