"""``kailab tenant``: options, output and exit codes."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import lab.operations.tenant.status
import lab.session.lab
from lab.cli.tenant import app as tenant_app
from lab.engine.milestones import Milestone
from lab.engine.step import Effect, Observed, ObservedStep
from lab.errors import CommandFailed, Leftovers, NoLab, SpecError
from lab.operations.tenant.results import TenantState, TenantStatus
from lab.paths import LabPaths
from lab.tenants.removal.timeline import Removal
from lab.tools.process import replace_process
from lab.ui.tenants import render_changes, render_tenant_status, render_tenants
from tests.support.tenancy_world import TenancyWorld, own_kai

ML = own_kai(nodes=["worker3"])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> TenancyWorld:
    world = TenancyWorld(monkeypatch, added=(ML,))
    monkeypatch.setattr(lab.session.lab.Lab, "attach", lambda name: world.lab())
    return world


def run(*words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(tenant_app, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


def state(**more: Any) -> TenantState:
    base: dict[str, Any] = {
        "spec": ML,
        "added": True,
        "there": True,
        "answers": True,
        "why": "",
        "kai": "0.16.8",
        "nodes": ("worker3",),
        "gpus": 2,
        "gpus_held": 1,
        "gpus_used": 0.75,
        "running": 3,
        "pending": 1,
        "kubeconfig": Path("/s/ml"),
        "server": "https://127.0.0.1:41000",
    }
    return TenantState(**{**base, **more})


def test_add_creates_a_tenant_and_can_be_repeated(world: TenancyWorld) -> None:
    done = run("add", "team-b", "--mode", "default", "--gpus", "2", "--nodes", "worker2")
    assert "Tenant team-b is ready" in done.stdout
    assert "kailab tenant connect team-b -- kubectl get pods -A" in done.stdout
    assert (world.lab().tenants[2].quota.gpus, world.lab().tenants[2].nodes) == (2, ("worker2",))
    again = json.loads(run("add", "team-b", "--mode", "default", "--gpus", "2", "--nodes", "worker2", "--json").stdout)
    assert (again["ok"], again["nodes"]) == (True, ["worker2"])


def test_kai_version_implies_mode_own_kai(world: TenancyWorld) -> None:
    run("add", "b", "--kai", "0.9.3", "--kubernetes", "1.33.13", "--nodes", "1")
    added = world.lab().tenants[2]
    assert (added.mode, added.kai_version, added.nodes) == ("own-kai", "0.9.3", ("worker2",))


def test_remove_reports_shared_nodes(world: TenancyWorld) -> None:
    world.removal = Removal("ml", (Milestone("namespace gone", 5.2),), None)
    done = run("remove", "ml", "--grace", "own")
    assert "Tenant ml is removed" in done.stdout
    assert "shared again: worker3" in done.stdout
    assert world.removed == [("ml", None)]
    with pytest.raises(SpecError, match="--grace soon"):
        run("remove", "file", "--grace", "soon")


def test_leftovers_are_an_error(world: TenancyWorld) -> None:
    world.removal = Removal("ml", (), 1.0, left=("ClusterRole vc-ml",))
    with pytest.raises(Leftovers, match="tenant ml was only partly removed"):
        run("remove", "ml")
    assert json.loads(run("remove", "ml", "--json", code=7).stdout)["left"] == ["ClusterRole vc-ml"]


def test_list_and_status_describe_tenants(world: TenancyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.cli.tenant.list.states", lambda *_: (state(),))
    assert run("list").stdout == (
        "tenant ml: ready; mode own-kai; KAI 0.16.8; Kubernetes 1.34.4; vCluster 0.36.1; own nodes worker3;"
        " GPUs 0.75 on 1 of 2; pods 3 running, 1 pending; API ready; kubeconfig /s/ml; added to the running lab\n"
    )
    assert json.loads(run("list", "--json").stdout)[0]["gpus_used"] == 0.75
    steps = (ObservedStep("kai:ml", "KAI in ml", Observed.drifted("differs", ["chart 0.9.3 → 0.16.8"])),)
    monkeypatch.setattr("lab.cli.tenant.status.status_of", lambda *_: (TenantStatus(state(), steps),))
    output = run("status", "ml", code=5).stdout
    assert "Tenant ml is not ready" in output
    assert "chart 0.9.3 → 0.16.8" in output
    assert json.loads(run("status", "--json", code=5).stdout)[0]["ok"] is False


def test_connect_prints_an_export_line(world: TenancyWorld) -> None:
    with pytest.raises(NoLab, match="did not come up"):
        run("connect", "ml")
    path = LabPaths("demo").tenant_kubeconfig("ml")
    path.write_text("")
    lines = run("connect", "ml").stdout.splitlines()
    assert lines[0] == f"export KUBECONFIG={path}"
    assert all(line.startswith("#") for line in lines[1:])


def test_connect_replaces_itself_with_the_command(world: TenancyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    path = LabPaths("demo").tenant_kubeconfig("ml")
    path.write_text("")
    executed: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda program, argv, env: executed.append((argv, env["KUBECONFIG"])))
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    run("connect", "ml", "--name", "demo", "--", "kubectl", "get", "pods", "--name", "x", "-A")
    assert executed == [(["kubectl", "get", "pods", "--name", "x", "-A"], str(path))]


def test_missing_program_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(CommandFailed, match="k9s is not installed"):
        replace_process(["k9s"], {})


def shown(draw: Any, *args: Any, width: int = 200, terminal: bool = True) -> str:
    out = io.StringIO()
    draw(*args, Console(file=out, width=width, force_terminal=terminal, color_system=None, legacy_windows=False))
    return out.getvalue()


def test_terminal_gets_an_aligned_table() -> None:
    other = state(spec=own_kai("sad"), answers=False, why="it does not answer", kai="", nodes=(), there=False)
    lines = shown(render_tenants, (state(), other), "demo").splitlines()
    assert lines[1].split() == [
        "tenant",
        "mode",
        "KAI",
        "Kubernetes",
        "vCluster",
        "own",
        "nodes",
        "GPUs",
        "pods",
        "API",
        "kubeconfig",
    ]
    assert lines[2].index("own-kai") == lines[3].index("own-kai") == lines[1].index("mode")
    assert "missing (0.16.8 wanted)" in lines[3]
    assert lines[4].strip() == "! sad: it does not answer"
    assert "has no tenants" in shown(render_tenants, (), "demo")


def test_version_drift_is_shown() -> None:
    assert "KAI 0.17.0 (0.16.8 wanted)" in shown(render_tenants, (state(kai="0.17.0"),), "demo", terminal=False)


def test_status_of_a_ready_tenant_has_no_next_action() -> None:
    steps = (ObservedStep("tenant:ml", "vCluster ml", Observed.ready("https://127.0.0.1:41000")),)
    text = shown(render_tenant_status, (TenantStatus(state(), steps),), "demo")
    assert "Tenant ml is ready  own-kai, added to the running lab" in text
    assert "next:" not in text


def test_changes_of_the_whole_lab_name_their_undo() -> None:
    text = shown(render_changes, (Effect("cluster", "KAI is upgraded", "kailab tenant remove"),))
    assert "Changes that affect the whole lab" in text
    assert "undone by: kailab tenant remove" in text
