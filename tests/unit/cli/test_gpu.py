"""``kailab gpu``: its output, and its calls to the lab."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import lab.session.lab
from lab.cli.gpu import app as gpu_app
from lab.config.gpu_models import gpu_models
from lab.errors import SpecError
from lab.gpu import GpuPlugin
from lab.gpu.simulated.health import Health, failures_in
from tests.support.gpu_world import SPEC, WORKERS, GpuWorld, pretend_machine


class FakeLab:
    """A running lab that counts how often it was locked."""

    def __init__(self, world: GpuWorld) -> None:
        self.world = world
        self.locks = 0
        self.session = SimpleNamespace(locked=self.locked)

    def context(self, step: str) -> Any:
        return self.world.ctx

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        self.locks += 1
        yield


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeLab:
    pretend_machine(monkeypatch)
    world = GpuWorld(tmp_path)
    world.plan(*WORKERS)
    world.api.add(*GpuPlugin(SPEC).documents())
    world.serve()
    fake = FakeLab(world)
    monkeypatch.setattr(lab.session.lab.Lab, "attach", lambda name: fake)
    return fake


def run(*argv: str) -> str:
    return CliRunner().invoke(gpu_app, list(argv), catch_exceptions=False).output


def test_models_are_listed() -> None:
    lines = run("models").splitlines()
    assert len(lines) == 2 + len(gpu_models())
    assert lines[6].split() == ["A100-40", "NVIDIA", "A100-SXM4-40GB", "40960", "MiB", "8.0", "ampere", "10de:20b0"]
    assert [model["short"] for model in json.loads(run("models", "--json"))] == [m.short for m in gpu_models()]


def test_failed_gpu_can_be_healed(up: FakeLab) -> None:
    node = up.world.nodes[WORKERS[1]]
    up.world.api.cluster.meanwhile = lambda: up.world.offer(WORKERS[1], 1 if failures_in(node.conf) else 2)
    output = run("fail", "worker2/1", "--xid", "94")
    assert output == "worker2/1: XID 94, contained ECC error; next: kailab gpu heal worker2/1\n"
    assert failures_in(node.conf) == {1: Health(94)}
    up.world.api.remove("Pod")

    def serve_again() -> None:
        if not up.world.api.of_kind("Pod"):
            up.world.serve()

    up.world.api.cluster.meanwhile = serve_again
    assert run("heal", "--all") == "worker2/1: healthy again\n"
    assert run("heal", "worker2/1") == "nothing to heal: all are healthy\n"
    assert up.locks == 3


def test_application_error_keeps_the_gpu_healthy(up: FakeLab) -> None:
    data = json.loads(run("fail", "worker/0", "--xid", "31", "--json"))
    assert (data["failed"], data["gpu"]["node"]) == (False, WORKERS[0])
    assert "keeps the GPU healthy" in data["note"]


def test_lost_gpu_has_xid_79(up: FakeLab) -> None:
    up.world.api.cluster.meanwhile = lambda: up.world.offer(WORKERS[0], 0)
    run("fail", "worker/0", "--lost")
    assert failures_in(up.world.nodes[WORKERS[0]].conf) == {0: Health(79, lost=True)}


@pytest.mark.parametrize("argv", [["heal"], ["heal", "worker/0", "--all"]])
def test_heal_needs_either_gpus_or_all(up: FakeLab, argv: list[str]) -> None:
    with pytest.raises(SpecError, match="either GPUs or --all must be given"):
        run(*argv)
    assert up.locks == 0
