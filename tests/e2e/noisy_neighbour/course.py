"""The course of one fire, seen by a vigil over the neighbours; its figures are kept, whatever they say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.noisy_neighbour.latency import AFTER, BEFORE, DURING, STAGES, VigilReport
from tests.e2e.noisy_neighbour.monitor import Neighbour, Vigil

from .faults import Fire, Stoke
from .own_kai import OwnKai

FACTOR, FLOOR = 3.0, 2.0
"""The median during the fire is at most FACTOR × the median before, and FLOOR seconds: two busy cores do not matter."""

MENDING = "mending"
"""The tenant is made whole: installing KAI takes the machine's cores, and is not what a fire costs."""

BASELINE, ROUNDS, EACH_ROUND, LAST = 8, 3, 4, 4
"""Small pods of each neighbour: before, in so many rounds so many during, and after."""

FOLDER = "flames"
"""Of the run's artifacts: one JSON file for each fire."""


def course(
    neighbours: Iterable[Neighbour], fire: AbstractContextManager[Stoke], mend: Callable[[], None]
) -> VigilReport:
    """Watch the neighbours before, during and after one fire. Raises LabError."""
    with Vigil(neighbours) as vigil:
        vigil.gather(BASELINE)
        vigil.begin(DURING)
        with fire as stoke:
            for _ in range(ROUNDS):
                stoke()
                vigil.gather(EACH_ROUND)
        vigil.begin(MENDING)
        mend()
        vigil.begin(AFTER)
        vigil.gather(LAST)
        return vigil.report()


def wrong(report: VigilReport) -> list[str]:
    """What a neighbour had to bear, a sentence each; none when nothing was noticed."""
    changed = [f"{one.neighbour}: pod {one.pod} {one.what} ({one.phase}, {one.at:.0f} s)" for one in report.findings]
    slowed = [line for stage in STAGES for line in report.slowed(FACTOR, FLOOR, stage)]
    return [*changed, *report.unserved(DURING), *slowed]


def keep(request: pytest.FixtureRequest, fire: Fire, own: OwnKai, report: VigilReport) -> Path:
    """Write the figures to a file of the run's artifacts, and name it, with the medians, in the test's properties."""
    given = request.config.getoption("lab_artifacts")
    folder = (Path(given).expanduser().absolute() if given else request.config.rootpath / "artifacts") / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{own.tenant.name}-{fire.id}.json"
    data = {
        "fire": fire.id,
        "what": fire.what,
        "tenant": own.tenant.name,
        "mode": own.tenant.mode,
        "kai": own.tenant.kai_version or "",
        "facts": own.lab.facts(),
        "bound": {"factor": FACTOR, "floor": FLOOR},
        "wrong": wrong(report),
        **report.as_json(),
    }
    path.write_text(json.dumps(data, indent=1) + "\n")
    request.node.user_properties.append(("kailab.flames", str(path)))
    request.node.user_properties.append(("kailab.flames.figures", json.dumps(medians(report))))
    return path


def medians(report: VigilReport) -> dict[str, Any]:
    """Of each neighbour the medians before, during and after, in seconds to scheduled and to running."""
    figures = report.as_json()["figures"]
    return {
        name: {stage: [phases[phase][stage]["p50"] for phase in (BEFORE, DURING, AFTER)] for stage in STAGES}
        for name, phases in figures.items()
    }
