"""Create a lab, repeat without a change, remove it."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest

from lab.tools.process import HostRunner
from tests.integration.conftest import Cli, containers_of

SECOND_UP_SECONDS = 10
"""2 s on a quiet machine, where the benchmark's limit is 3 s."""


@pytest.mark.timeout(1200)
def test_up_up_status_down_beside_another_lab(cli: Cli, engine: HostRunner) -> None:
    cli.labs += ["it-beside", "it-life"]
    alone = ("--set", "scheduler=default", "--set", "cluster.workers=0")
    cli("up", "--profile", "cpu", "--name", "it-beside", "--yes", *alone)
    args = ("--profile", "minimal", "--name", "it-life")
    first = cli("up", *args, "--yes", "--json").json()
    assert first["ok"]
    assert first["changed"] > 3

    took = []
    for _ in range(5):  # other tests' labs come up at the same time
        began = time.monotonic()
        second = cli("up", *args, "--json").json()
        took.append(time.monotonic() - began)
        assert second["changed"] == 0
        assert {step["outcome"] for step in second["steps"]} == {"unchanged"}
        if took[-1] < SECOND_UP_SECONDS:
            break
    assert min(took) < SECOND_UP_SECONDS, f"a second up took {min(took):.1f} s at best"

    # the same name under another state directory: another user's lab, which must stay
    another = Cli(cli.root / "another", cleared={"it-life"})
    nodes = containers_of(engine, "it-life")
    for command in (("up", *args, "--yes"), ("plan", *args)):
        assert "belong to another user or state directory" in another(*command, code=14).err
    (another.root / "lab.yaml").write_text("name: it-life\n")
    assert "kailab down --name it-life" in another("down", code=14).err
    assert containers_of(engine, "it-life") == nodes
    assert cli("status", "--name", "it-life", "--json").json()["ok"]

    assert "several labs" in cli("status", code=9).err
    status = cli("status", "--name", "it-life", "--json").json()
    assert status["ok"]
    kubeconfig = Path(cli("kubeconfig", "--name", "it-life").out.strip())
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600

    down = cli("down", "--name", "it-life", "--json").json()
    assert down["left"] == []
    assert containers_of(engine, "it-life") == []
    assert not (cli.root / "state" / "labs" / "it-life").exists()
    assert cli("down", "--name", "it-life", "--json").json()["left"] == []
    assert cli("status", "--json").json()["ok"]  # of the one that is left
    cli("down")
    assert containers_of(engine, "it-beside") == []
    assert "no lab" in cli("status", code=9).err


@pytest.mark.timeout(900)
def test_down_proves_that_volumes_and_network_are_gone(cli: Cli, engine: HostRunner) -> None:
    """With a network of this test's own, as other tests' labs use kind's."""
    cli.labs.append("it-proof")
    cli.env["KIND_EXPERIMENTAL_DOCKER_NETWORK"] = network = "kailab-it-proof"

    def run(*words: str) -> list[str]:
        return engine.run(["docker", *words]).out.split()

    up = ("up", "--profile", "cpu", "--name", "it-proof", "--yes", "--set", "scheduler=default", "--set")
    cli(*up, "cluster.workers=0")
    node = "kailab-it-proof-control-plane"
    image = run("inspect", "--format", "{{.Image}}", node)[0]
    mounts = '{{range .Mounts}}{{if eq .Type "volume"}}{{.Name}} {{end}}{{end}}'
    volumes = set(run("inspect", "--format", mounts, node))
    assert volumes
    assert network in run("network", "ls", "--format", "{{.Name}}")

    # a container that was never started keeps the volumes and is attached to the network
    run("create", "--name", "it-proof-user", "--volumes-from", node, "--network", network, image)
    try:
        refused = cli("down", "--name", "it-proof", code=7)
        assert all(f"volume {name}" in refused.err for name in volumes)
        assert f"network {network} is kept: it-proof-user uses it" in refused.err
        assert containers_of(engine, "it-proof") == []
    finally:
        run("rm", "it-proof-user")
    down = cli("down", "--name", "it-proof", "--json").json()
    assert down["left"] == []
    assert volumes.isdisjoint(run("volume", "ls", "-q"))
    run("network", "rm", network)  # somebody else used it, so it stayed

    cli(*up, "cluster.workers=0")
    cli("down", "--name", "it-proof")
    assert network not in run("network", "ls", "--format", "{{.Name}}")


@pytest.mark.timeout(1500)
def test_last_lab_of_any_state_directory_removes_the_network(cli: Cli, engine: HostRunner) -> None:
    """One that existed before the first of them stays."""
    cli.env["KIND_EXPERIMENTAL_DOCKER_NETWORK"] = network = "kailab-it-shared"
    another = Cli(
        cli.root / "another", {"KIND_EXPERIMENTAL_DOCKER_NETWORK": network}, cleared={"it-first", "it-second"}
    )
    cli.labs.append("it-first")

    def up(command: Cli, name: str) -> None:
        small = ("--set", "scheduler=default", "--set", "cluster.workers=0")
        command("up", "--profile", "cpu", "--name", name, "--yes", *small)

    def exists() -> bool:
        return network in engine.run(["docker", "network", "ls", "--format", "{{.Name}}"]).out.split()

    try:
        up(cli, "it-first")
        up(another, "it-second")
        kept = f"network {network} is kept: kailab-it-second-control-plane uses it"
        assert kept in cli("down", "--name", "it-first").err
        assert exists()
        assert another("down", "--name", "it-second", "--json").json()["left"] == []
        assert not exists()

        engine.run(["docker", "network", "create", network])
        up(cli, "it-first")
        kept = f"network {network} is kept: it existed before lab it-first"
        assert kept in cli("down", "--name", "it-first").err
        assert exists()
    finally:
        another("down", "--name", "it-second", code=None)
        cli("down", "--name", "it-first", code=None)
        engine.run(["docker", "network", "rm", network], check=False)


@pytest.mark.timeout(300)
def test_plan_changes_nothing(cli: Cli, engine: HostRunner) -> None:
    plan = cli("plan", "--profile", "demo", "--name", "it-plan", "--json").json()
    assert plan["steps"][0]["id"] == "host"
    assert {"cluster", "network"} <= {step["id"] for step in plan["steps"]}
    assert all(entry["source"] in ("present", "bundle", "registry", "build") for entry in plan["supply"])
    assert containers_of(engine, "it-plan") == []
    assert list((cli.root / "state").glob("labs/*")) == []


def test_kai_that_cannot_be_had_is_said_at_once(cli: Cli) -> None:
    args = (
        "--profile",
        "demo",
        "--name",
        "it-none",
        "--set",
        "kai.version=0.14.7",
        "--set",
        "supply.sources=[present, build]",
    )
    plan = cli("plan", *args, "--json").json()
    assert plan["facts"]["scheduler"] == "default"
    assert any("NO KAI" in notice for notice in plan["notices"])
    began = time.monotonic()
    refused = cli("up", *args, "--require", "kai", "--yes", code=3)
    assert "KAI 0.14.7 is required but not available" in refused.err
    assert "bundle" in refused.err
    assert time.monotonic() - began < 60, "it began to fetch or build"
    assert list((cli.root / "state").glob("labs/*")) == []
