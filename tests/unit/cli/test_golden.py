"""Output of kailab, compared with recorded text.

``KAILAB_GOLDEN=write`` records it again; the diff shows the changes that users will see.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from lab.cli.app import app
from lab.config import LabSpec, load_profile
from lab.host.facts import HostFacts, OsFacts
from lab.host.fixes import build_fixes
from lab.operations.planning import build_plan
from lab.operations.results import PlanReport
from lab.operations.ways import Ways
from lab.serialization import document
from lab.steps.host import HostReady
from lab.supply import Choice, Item, Supply
from lab.supply.resolve import Chooser
from lab.tools.container import ContainerEngine
from tests.support.commands import commands
from tests.support.fakes import FakeRunner

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
PROFILES = ("cpu", "demo", "gpu", "gpus", "minimal", "tenants", "versions")


def assert_golden(name: str, text: str) -> None:
    """Compare with the recorded text, or record it."""
    path = GOLDEN / name
    if os.environ.get("KAILAB_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def printed(*words: str) -> str:
    """The output of a command that needs no lab."""
    done = CliRunner().invoke(app, list(words), terminal_width=100, prog_name="kailab", env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("words", [words for words, _ in commands()], ids=lambda words: "-".join(words) or "kailab")
def test_help_is_as_recorded(words: tuple[str, ...]) -> None:
    assert_golden(f"help/{'-'.join(('kailab', *words))}.txt", printed(*words, "--help"))


@pytest.mark.parametrize(
    "words",
    [
        ("exit-codes",),
        ("kai", "versions"),
        ("kai", "versions", "--json"),
        ("gpu", "models"),
        ("gpu", "models", "--json"),
        ("lint", "--rules"),
        ("doctor", "--symptoms"),
        ("schema",),
    ],
    ids=lambda words: "-".join(words).replace("---", "-"),
)
def test_output_without_a_lab_is_as_recorded(words: tuple[str, ...]) -> None:
    assert_golden(f"output/{'-'.join(words).replace('---', '-')}.txt", printed(*words))


def resolved(profile: str) -> LabSpec:
    """A profile without ``auto``, as on a machine that supports everything."""
    spec = load_profile(profile)
    gpu = spec.gpu.model_copy(update={"mode": "simulated" if spec.gpu.mode == "auto" else spec.gpu.mode})
    scheduler = "kai" if spec.scheduler == "auto" else spec.scheduler
    return spec.model_copy(update={"gpu": gpu, "scheduler": scheduler})


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "gpu"])
def test_plan_of_a_profile_is_as_recorded(profile: str, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(_: Chooser, items: Iterable[Item]) -> dict[Item, Choice]:
        return {item: Choice(item, "registry", f"registry of {item.name}") for item in items}

    monkeypatch.setattr(Chooser, "choose", choose)
    spec = resolved(profile)
    supply = Supply(spec, runner, ContainerEngine(runner), engine_runs=False)
    found = build_plan(spec, supply, HostReady(()), no_kai="", notices=(), facts={})
    report = PlanReport(found, {}, (), None, Ways.of(found.choices, supply))
    plan: dict[str, Any] = document(report)
    plan["facts"]["node_image"] = plan["facts"]["node_image"].partition(":")[0]  # the tag is a digest of kind/
    assert_golden(f"plan/{profile}.json", json.dumps(plan, indent=1) + "\n")


@pytest.mark.parametrize(("source", "fixes"), [("build", ["install build tools"]), ("bundle", []), ("registry", [])])
def test_only_a_plan_that_builds_installs_build_tools(
    source: str, fixes: list[str], runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without a compiler uses a bundle or registries as it is: the simulated NVML needs none of its own."""
    monkeypatch.setattr(Chooser, "choose", lambda _, items: {item: Choice(item, source, "") for item in items})
    spec = resolved("minimal").model_copy(update={"scheduler": "default"})
    supply = Supply(spec, runner, ContainerEngine(runner), engine_runs=False)
    monkeypatch.setattr(Supply, "identity", lambda _, item: item.name)
    monkeypatch.setattr(Supply, "made_here", lambda *_: True)
    host = HostReady((), build_fixes(HostFacts(OsFacts("debian"))))
    plan = build_plan(spec, supply, host, no_kai="", notices=(), facts={})
    assert [effect.what.partition(":")[0] for effect in plan.host_effects] == fixes
    assert plan.steps[0].effects() == plan.host_effects


@pytest.mark.parametrize("words", [words for words, _ in commands()], ids=lambda words: "-".join(words) or "kailab")
def test_help_of_groups_matches_help_of_commands(words: tuple[str, ...]) -> None:
    """Groups keep a help line for each command, so that a group's help imports none of them."""
    group = typer.main.get_command(app)
    for word in words:
        group = group.get_command(None, word)  # type: ignore[attr-defined,arg-type]
    if not hasattr(group, "list_commands"):
        return
    for line in printed(*words, "--help").split("Commands:\n")[1].split("\n\n")[0].splitlines():
        name, _, summary = line.strip().partition(" ")
        own = " ".join((group.get_command(None, name).help or "").split())  # type: ignore[arg-type]
        assert own.startswith(summary.strip().removesuffix("...").removesuffix(".")), name
