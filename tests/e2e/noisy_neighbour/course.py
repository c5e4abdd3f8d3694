"""Run one fault while the neighbours are monitored, and save the figures, whatever they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from .faults import Fault, Intensify
from .latency import AFTER, BEFORE, DURING, STAGES, MonitorReport
from .monitor import Neighbour, NeighbourMonitor
from .own_kai import OwnKai

FACTOR, FLOOR = 3.0, 2.0
"""Bound of the median during the fault: FACTOR × the median before + FLOOR seconds, which allows for busy cores."""

REPAIR = "repair"
"""Phase of the repair, which does not count as an effect of the fault: installing KAI uses the machine's cores."""

BASELINE, ROUNDS, EACH_ROUND, LAST = 8, 3, 4, 4
"""Small pods of each neighbour: BASELINE before, EACH_ROUND in each of ROUNDS rounds during, LAST after the fault."""

FOLDER = "noisy-neighbour"
"""Folder of the run's artifacts with one JSON file for each fault."""


def monitor_fault(
    neighbours: Iterable[Neighbour], fault: AbstractContextManager[Intensify], repair: Callable[[], None]
) -> MonitorReport:
    """Monitor the neighbours before, during and after one fault. Raises LabError."""
    with NeighbourMonitor(neighbours) as monitor:
        monitor.gather(BASELINE)
        monitor.begin(DURING)
        with fault as intensify:
            for _ in range(ROUNDS):
                intensify()
                monitor.gather(EACH_ROUND)
        monitor.begin(REPAIR)
        repair()
        monitor.begin(AFTER)
        monitor.gather(LAST)
        return monitor.report()


def problems(report: MonitorReport) -> list[str]:
    """Return a sentence for each effect of the fault on a neighbour."""
    changed = [f"{one.neighbour}: pod {one.pod} {one.change} ({one.phase}, {one.at:.0f} s)" for one in report.findings]
    slowed = [line for stage in STAGES for line in report.slowed(FACTOR, FLOOR, stage)]
    return [*changed, *report.unserved(DURING), *slowed]


def save(request: pytest.FixtureRequest, fault: Fault, own: OwnKai, report: MonitorReport) -> Path:
    """Write the figures to the run's artifacts; put the path and the medians into the test's user properties."""
    option = request.config.getoption("lab_artifacts")
    folder = (Path(option).expanduser().absolute() if option else request.config.rootpath / "artifacts") / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{own.tenant.name}-{fault.id}.json"
    data = {
        "fault": fault.id,
        "description": fault.description,
        "tenant": own.tenant.name,
        "mode": own.tenant.mode,
        "kai": own.tenant.kai_version or "",
        "facts": own.lab.facts(),
        "bound": {"factor": FACTOR, "floor": FLOOR},
        "problems": problems(report),
        **report.as_json(),
    }
    path.write_text(json.dumps(data, indent=1) + "\n")
    request.node.user_properties.append(("kailab.noisy_neighbour", str(path)))
    request.node.user_properties.append(("kailab.noisy_neighbour.figures", json.dumps(medians(report))))
    return path


def medians(report: MonitorReport) -> dict[str, Any]:
    """Return each neighbour's medians before, during and after the fault, in seconds to scheduled and to running."""
    figures = report.as_json()["figures"]
    return {
        name: {stage: [phases[phase][stage]["p50"] for phase in (BEFORE, DURING, AFTER)] for stage in STAGES}
        for name, phases in figures.items()
    }
