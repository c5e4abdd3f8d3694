"""The whole demo lab from a bundle alone, on a machine without a network, a cache, compilers or Kubernetes tools.

The machine is a scratch host: lab, the container engine and the nodes have a loopback interface and the engine's
bridges, and no route beyond them.
"""

from __future__ import annotations

import socket
import subprocess  # noqa: TID251 - pytest on a lab, as a person runs it
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.config import dump_spec, load_profile
from lab.tools.process import HostRunner
from tests.integration.conftest import Cli, lacking
from tests.integration.scratch import ScratchHost, scratch_host
from tests.integration.scratch.cli import ScratchCli
from tests.integration.scratch.host import ROOT

NAME = "it-offline"
SUITES = ("tests/e2e/test_kai_pods.py", "tests/e2e/test_queues.py", "tests/e2e/test_tenants.py")
TOOLS = ("go", "cc", "gcc", "clang", "debootstrap", "git", "kind", "helm", "kubectl")
"""Programs that build items, or that ``kailab`` would use in place of the bundle's."""


def demo(*overrides: str) -> dict[str, Any]:
    lab: dict[str, Any] = yaml.safe_load(dump_spec(load_profile("demo", [f"name={NAME}", *overrides])))
    return lab


@pytest.fixture
def host(engine: HostRunner) -> Iterator[ScratchHost]:
    with scratch_host() as made:
        for tool in TOOLS:
            made.run("sh", "-c", f'while found=$(command -v {tool}); do rm "$found"; done')
        yield made


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    """An address of this machine that answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way, socket.create_server(("", 0)) as server:
        way.connect(("192.0.2.1", 9))  # sends nothing
        yield way.getsockname()[0], server.getsockname()[1]


@pytest.mark.timeout(2400)
def test_demo_lab_without_a_network(cli: Cli, host: ScratchHost, address: tuple[str, int], engine: HostRunner) -> None:
    bundle = host.home / "bundle"
    facts = cli("plan", "--profile", "demo", "--name", NAME, "--json").json()["facts"]
    with_kai = facts["scheduler"] == "kai"
    cli("bundle", "create", "--profile", "demo", "--out", str(bundle))
    env = {"KAILAB_CACHE": str(host.home / "cache"), "HOME": str(host.home / "user"), "TMPDIR": str(host.home / "tmp")}
    for folder in env.values():
        Path(folder).mkdir()
    lab = ScratchCli(host, host.home / "lab", demo(f"supply.bundle={bundle}"), **env)
    try:
        assert_cut(host, address, engine)
        without = ScratchCli(host, host.home / "without", demo(), **env)
        refused = without("up", "-f", str(without.file), "--yes", code=3)
        assert "not available from any configured source" in refused.err

        up = lab("up", "-f", str(lab.file), "--yes", "--json", timeout=1800).json()
        assert up["ok"]
        assert {key: up["facts"][key] for key in ("gpus", "scheduler", "tenants")} == {
            key: facts[key] for key in ("gpus", "scheduler", "tenants")
        }
        chosen = lab("plan", "-f", str(lab.file), "--json").json()["supply"]
        assert {entry["source"] for entry in chosen} == {"bundle"}
        assert_cut(host, address, engine, "docker", "exec", f"kailab-{NAME}-worker")

        run_suites(lab, "gpus,tenants,kai" if with_kai else "gpus,tenants")
        assert lab("verify", "--json").json()["ok"]
    finally:
        down = lab("down", "--name", NAME, "--host", "--yes", "--json", code=None)
    assert down.code == 0, down.err
    assert down.json()["left"] == []
    if not with_kai:
        lacking("kai", f"everything but KAI came from the bundle: {facts['no_kai']}")


def assert_cut(host: ScratchHost, address: tuple[str, int], engine: HostRunner, *inside: str) -> None:
    """This machine's address answers here, and is not reachable from the scratch host or a container on it."""
    connect = ["timeout", "10", "bash", "-c", f"</dev/tcp/{address[0]}/{address[1]}"]
    assert engine.run(connect, check=False).code == 0
    done = host.run(*inside, *connect, code=None)
    assert done.code == 124 or "Network is unreachable" in done.err, done  # timeout's exit code: no answer at all


def run_suites(lab: ScratchCli, require: str) -> None:
    argv = [sys.executable, "-m", "pytest", *SUITES, "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--lab", NAME]
    argv += ["--lab-require", require, f"--lab-artifacts={lab.root / 'artifacts'}"]
    done = subprocess.run(
        lab.host.argv(*argv, cwd=ROOT), env=lab.env, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:]
