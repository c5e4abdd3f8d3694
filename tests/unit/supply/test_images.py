"""Images of the engine and of registries, also while other processes change the engine's images."""

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
INSPECT = f"docker image inspect --format {{{{.Id}}}} {NAME}"


@pytest.fixture
def supply(runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> Supply:
    monkeypatch.setattr(registry, "reachable", lambda host: host == "ghcr.io")
    monkeypatch.setattr(registry.fetch.retry, "sleep", lambda seconds: None)  # type: ignore[attr-defined]
    spec = LabSpec.model_validate({"supply": {"sources": ["present", "registry"]}})
    return Supply(spec, runner, ContainerEngine(runner))


def write_image(call: Call) -> str:
    Path(call.argv[call.argv.index("-o") + 1]).write_text("the image")
    return ""


def serve_from_registry(runner: FakeRunner) -> None:
    runner.handle(f"docker manifest inspect {NAME}")
    runner.handle(f"docker pull -q {NAME}")
    runner.handle(f"docker rmi {NAME}")


def test_image_removed_after_planning_comes_from_the_next_source(supply: Supply, runner: FakeRunner) -> None:
    runner.handle(INSPECT, out="sha256:1", times=1)
    assert supply.choose([IMAGE])[IMAGE].source == "present"
    runner.handle(INSPECT, code=1)
    runner.handle("docker save -o", code=1, err="No such image", times=1)
    serve_from_registry(runner)
    runner.handle("docker save -o", out=write_image)
    assert supply.path(IMAGE).read_text() == "the image"
    assert supply.choose([IMAGE])[IMAGE].source == "registry"


def test_failed_save_of_an_existing_image_is_an_error(supply: Supply, runner: FakeRunner) -> None:
    runner.handle(INSPECT, out="sha256:1")
    runner.handle("docker save -o", code=1, err="no space left on device")
    with pytest.raises(CommandFailed, match="no space left"):
        supply.path(IMAGE)


def test_image_removed_during_the_fetch_is_pulled_again(supply: Supply, runner: FakeRunner) -> None:
    runner.handle(INSPECT, code=1)
    serve_from_registry(runner)
    runner.handle("docker save -o", code=1, err="No such image", times=1)
    runner.handle("docker save -o", out=write_image)
    assert supply.path(IMAGE).read_text() == "the image"
    assert sum(line.startswith("docker pull") for line in runner.lines) == 2


def test_concurrent_labs_fetch_an_image_once(supply: Supply, runner: FakeRunner, other: AnotherLab) -> None:
    target = fetched(IMAGE, "")
    runner.handle(INSPECT, code=1)
    runner.handle(f"docker manifest inspect {NAME}")
    assert other.begins(str(target))

    def finish(text: str, *_: object) -> None:
        assert text == f"waiting for another process to make {target.name}"
        target.parent.mkdir(parents=True)
        target.write_text("the image")
        other.ends()

    assert supply.path(IMAGE, finish) == target
    assert not [line for line in runner.lines if "pull" in line]
