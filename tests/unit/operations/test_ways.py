"""The way of each item and its cost, as 'kailab plan' and 'kailab doctor' state it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.config import LabSpec
from lab.errors import SpecError
from lab.operations import doctor
from lab.operations.ways import Ways, supply_finding
from lab.paths import state_root
from lab.supply import Choice, Item, Supply
from lab.tools.container import ContainerEngine
from lab.workloads.pods import IMAGE
from tests.support.fakes import FakeRunner

KUBELET, PROBE = Item("image", "docker.io/kindest/node:v1.34.4"), Item("image", IMAGE)
KIND, CHART = Item("binary", "kind"), Item("chart", "kai-scheduler")


@pytest.fixture
def supply(runner: FakeRunner) -> Supply:
    return Supply(LabSpec(), runner, ContainerEngine(runner), engine_runs=False)


def choices(*ways: tuple[Item, str, int]) -> list[Choice]:
    return [Choice(item, source, "there", size=size) for item, source, size in ways]


def test_cost_of_each_way(supply: Supply) -> None:
    supply.catalogue.seconds["node"] = 125
    every = choices((KIND, "present", 0), (CHART, "bundle", 0), (PROBE, "registry", 250_000_000), (KUBELET, "build", 0))
    ways = Ways.of(every, supply)
    assert ways.download == "238 MiB, about 20 s at 100 Mbit/s"
    assert ways.build == "node about 2 min 05 s"
    assert [(one.severity, one.what) for one in ways.findings()] == [
        ("ok", "2 items on this machine"),
        ("ok", "1 download: 238 MiB, about 20 s at 100 Mbit/s"),
        ("ok", "1 build here: node about 2 min 05 s"),
    ]
    assert ways.may_build


def test_unknown_cost_is_not_invented(supply: Supply) -> None:
    supply.catalogue.seconds.pop("node", None)
    ways = Ways.of(choices((PROBE, "registry", 0), (KUBELET, "build", 0)), supply)
    assert (ways.download, ways.build) == ("1 size not known", "node")


def test_builds_of_this_machine_say_more_than_the_catalogue(supply: Supply) -> None:
    supply.catalogue.seconds["node"] = 125
    runs = state_root() / "runs" / "demo"
    runs.mkdir(parents=True)
    step = {"step": "supply:node", "outcome": "changed", "seconds": 61}
    (runs / "20260101T000000-up.json").write_text(json.dumps({"verb": "up", "steps": [step]}))
    assert Ways.of(choices((KUBELET, "build", 0)), supply).builds == {"node": 61}


@pytest.mark.parametrize(("why", "builds"), [("build: no go command", True), ("registry: not reachable", False)])
def test_missing_item_is_an_error_with_its_fix(why: str, builds: bool, supply: Supply) -> None:
    ways = Ways.of([Choice(PROBE, "none", "", (why,), "install Go")], supply)
    (one,) = ways.findings()
    assert (one.severity, one.what, one.next) == ("error", f"{PROBE} is not available: {why}", "install Go")
    assert ways.may_build is builds


class Prepared:
    """A plan with given choices in place of a real one."""

    def __init__(self, *found: Choice) -> None:
        self.choices = found

    def __call__(self, lab: Any) -> tuple[Prepared, tuple[()]]:
        return self, ()


BUILD_TOOLS = supply_finding("warning", "Go is not installed")


@pytest.mark.parametrize(("source", "kept"), [("registry", []), ("build", ["Go is not installed"])])
def test_doctor_warns_of_build_tools_only_if_something_is_built(
    source: str, kept: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "prepare", Prepared(*choices((PROBE, source, 0))))
    tools = BUILD_TOOLS.__class__(BUILD_TOOLS.what, rule="build-tools", severity="warning")
    found = doctor.with_ways(LabSpec(), (tools,))
    assert [one.what for one in found if one.rule == "build-tools"] == kept
    assert len([one for one in found if one.rule == "supply"]) == 1


def test_doctor_passes_on_what_a_plan_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(lab: object) -> None:
        raise SpecError("4 GPUs were requested", fix="fewer")

    monkeypatch.setattr(doctor, "prepare", refuse)
    (one,) = doctor.with_ways(LabSpec(), ())
    assert (one.severity, one.what, one.next) == ("warning", "4 GPUs were requested", "fewer")
