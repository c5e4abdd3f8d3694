"""Each KAI version line against released charts: those of the bundles in the cache, rendered by helm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.config import load_profile
from lab.kai import line_of, lines, release
from lab.kai.chart import differences
from lab.kai.names import KAI_CHART
from lab.supply import Item, Supply
from lab.supply.bundle import Bundle, installed
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from tests.integration.conftest import lacking
from tests.support.kai_renders import recorded, seen, versions


@dataclass(frozen=True)
class Found:
    """A KAI chart in a bundle."""

    version: str
    bundle: Bundle

    @property
    def path(self) -> Path:
        """Return the chart's file after verifying its checksum."""
        entry = self.bundle.find(Item("chart", KAI_CHART), f"v{self.version}")
        assert entry is not None
        return self.bundle.trusted(entry)


def charts() -> list[Found]:
    """The KAI charts of all bundles in the cache."""
    return [
        Found(entry.version.removeprefix("v"), bundle)
        for bundle in installed()
        for entry in bundle.entries
        if (entry.kind, entry.name) == ("chart", KAI_CHART)
    ]


@pytest.fixture(scope="module")
def runner() -> HostRunner:
    """Runs commands on this machine."""
    return HostRunner()


@pytest.fixture(scope="module")
def helm(runner: HostRunner) -> Path:
    """The helm program, if this machine has one or can fetch it."""
    supply = Supply(load_profile("minimal"), runner, ContainerEngine(runner), engine_runs=False)
    item = Item("binary", "helm")
    if not supply.has(item.kind, item.name) or supply.choices[item].source == "build":
        pytest.skip("helm is not in the cache and cannot be fetched")
    return supply.binary("helm")


@pytest.mark.parametrize("version", list(lines()))
def test_released_charts_are_as_the_line_says(version: str, helm: Path, runner: HostRunner) -> None:
    line = lines()[version]
    here = [found for found in charts() if line_of(found.version).name == line.name]
    if not here:
        pytest.skip(f"no bundle in the cache has a KAI chart of line {line.name}")
    for found in here:
        chart = seen(helm, found.path, runner)
        assert chart.version == found.version
        found_differences = differences(line_of(found.version), chart)
        assert found_differences == [], f"KAI {found.version} of {found.bundle.root}"
        if found.version in versions():
            # the data of the unit tests was rendered from the sources: the released chart must show the same
            assert chart == recorded(found.version)


def test_versions_of_the_bundles_are_known() -> None:
    found = charts()
    if not found:
        lacking("kai", "no bundle in the cache has a KAI chart")
    unknown = [one.version for one in found if not line_of(one.version).exact]
    assert not unknown, f"newest known: {max(lines(), key=release)}"
