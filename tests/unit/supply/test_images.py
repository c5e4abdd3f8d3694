"""Images of the engine and of registries: what else is done to the engine's images meanwhile does no harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.config import LabSpec
from lab.errors import CommandFailed
from lab.supply import Item, Supply, registry
from lab.supply.recipes import fetched
from lab.tools.container import ContainerEngine
from tests.support.another_lab import AnotherLab
from tests.support.fakes import Call, FakeRunner

NAME = "ghcr.io/kai-scheduler/kai-scheduler/binder:v0.16.8"
IMAGE = Item("image", NAME)
LOOK = f"docker image inspect --format {{{{.Id}}}} {NAME}"


@pytest.fixture
def supply(runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> Supply:
    monkeypatch.setattr(registry, "reachable", lambda host: host == "ghcr.io")
    monkeypatch.setattr(registry.fetch.retry, "sleep", lambda seconds: None)  # type: ignore[attr-defined]
    spec = LabSpec.model_validate({"supply": {"sources": ["present", "registry"]}})
    return Supply(spec, runner, ContainerEngine(runner))


def written(call: Call) -> str:
    Path(call.argv[call.argv.index("-o") + 1]).write_text("the image")
    return ""


def in_registry(runner: FakeRunner) -> None:
    runner.handle(f"docker manifest inspect {NAME}")
    runner.handle(f"docker pull -q {NAME}")
    runner.handle(f"docker rmi {NAME}")


def test_an_image_that_left_the_engine_after_the_plan_comes_from_the_next_source(
    supply: Supply, runner: FakeRunner
) -> None:
    runner.handle(LOOK, out="sha256:1", times=1)
    assert supply.choose([IMAGE])[IMAGE].source == "present"
    runner.handle(LOOK, code=1)
    runner.handle("docker save -o", code=1, err="No such image", times=1)
    in_registry(runner)
    runner.handle("docker save -o", out=written)
    assert supply.path(IMAGE).read_text() == "the image"
    assert supply.choose([IMAGE])[IMAGE].source == "registry"


def test_an_image_that_is_there_and_cannot_be_saved_is_an_error(supply: Supply, runner: FakeRunner) -> None:
    runner.handle(LOOK, out="sha256:1")
    runner.handle("docker save -o", code=1, err="no space left on device")
    with pytest.raises(CommandFailed, match="no space left"):
        supply.path(IMAGE)


def test_an_image_that_somebody_removes_while_it_is_fetched_is_pulled_again(supply: Supply, runner: FakeRunner) -> None:
    runner.handle(LOOK, code=1)
    in_registry(runner)
    runner.handle("docker save -o", code=1, err="No such image", times=1)
    runner.handle("docker save -o", out=written)
    assert supply.path(IMAGE).read_text() == "the image"
    assert sum(line.startswith("docker pull") for line in runner.lines) == 2


def test_two_labs_fetch_an_image_once(supply: Supply, runner: FakeRunner, other: AnotherLab) -> None:
    target = fetched(IMAGE, "")
    runner.handle(LOOK, code=1)
    runner.handle(f"docker manifest inspect {NAME}")
    assert other.begins(str(target))

    def waits(text: str, *_: object) -> None:
        assert text == f"waiting for another process to make {target.name}"
        target.parent.mkdir(parents=True)
        target.write_text("the image")
        other.ends()

    assert supply.path(IMAGE, waits) == target
    assert not [line for line in runner.lines if "pull" in line]
