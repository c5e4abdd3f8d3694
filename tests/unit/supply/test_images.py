"""Images of the engine and of registries, also while other processes change the engine's images."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.config import LabSpec
from lab.errors import CommandFailed, Unavailable
from lab.supply import Item, Supply, registry
from lab.supply.bundle import create
from lab.supply.recipes import fetched
from lab.tools.container import ContainerEngine
from tests.support.another_lab import AnotherLab
from tests.support.fakes import Call, FakeRunner

NAME = "ghcr.io/kai-scheduler/kai-scheduler/binder:v0.16.8"
IMAGE = Item("image", NAME)
INSPECT = f"docker image inspect --format {{{{.Id}}}} {NAME}"


@pytest.fixture
def supply(runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> Supply:
    monkeypatch.setattr(registry, "reachable", lambda host: host in ("ghcr.io", "localhost:5001"))
    monkeypatch.setattr(registry.fetch.retry, "sleep", lambda seconds: None)  # type: ignore[attr-defined]
    return supply_with(runner)


def supply_with(runner: FakeRunner, **section: object) -> Supply:
    spec = LabSpec.model_validate({"supply": {"sources": ["present", "registry"], **section}})
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


DIGEST = f"sha256:{'1' * 64}"
PINNED = f"{NAME.rpartition(':')[0]}@{DIGEST}"


@pytest.mark.usefixtures("supply")
def test_pinned_image_is_pulled_by_its_digest(runner: FakeRunner) -> None:
    pinned = supply_with(runner, pins={NAME: DIGEST})
    runner.handle("docker image inspect", code=1)
    runner.handle(f"docker manifest inspect {PINNED}", exact=True)
    choice = pinned.choose([IMAGE])[IMAGE]
    assert (choice.source, choice.verified) == ("registry", "pinned")
    for line in (f"pull -q {PINNED}", f"tag {PINNED} {NAME}", f"rmi {NAME}", f"rmi {PINNED}"):
        runner.handle(f"docker {line}", exact=True)
    runner.handle(["docker", "save", "-o", ..., NAME], out=write_image)
    assert pinned.path(IMAGE).read_text() == "the image"


@pytest.mark.usefixtures("supply")
def test_registry_with_another_content_than_the_pin_is_refused(runner: FakeRunner) -> None:
    mirrored = supply_with(runner, pins={NAME: DIGEST}, mirrors={"ghcr.io": "localhost:5001"})
    there = NAME.replace("ghcr.io", "localhost:5001")
    runner.handle("docker image inspect", code=1)
    runner.handle(f"docker manifest inspect --insecure {PINNED.replace('ghcr.io', 'localhost:5001')}", code=1)
    runner.handle(f"docker manifest inspect --insecure {there}")
    with pytest.raises(Unavailable) as caught:
        mirrored.path(IMAGE)
    assert caught.value.evidence == (f"registry: {there} is not the pinned {DIGEST}",)


@pytest.mark.parametrize(("by_digest", "source"), [("sha256:1", "present"), ("sha256:2", "none"), ("", "none")])
def test_image_of_the_engine_is_compared_with_its_pin(runner: FakeRunner, by_digest: str, source: str) -> None:
    pinned = supply_with(runner, pins={NAME: DIGEST}, sources=["present"])
    runner.handle(INSPECT, out="sha256:1\n")
    runner.handle(INSPECT.replace(NAME, PINNED), out=f"{by_digest}\n", code=0 if by_digest else 1)
    choice = pinned.choose([IMAGE])[IMAGE]
    assert choice.source == source
    assert "".join(choice.why).endswith("" if source == "present" else f"than the pinned {DIGEST}")


def test_file_that_was_checked_against_another_pin_is_fetched_again(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    kind, none = Item("binary", "kind"), {"sources": ["present"]}
    plain = supply_with(runner, **none)
    file = fetched(kind, "0.33.0", plain.catalogue)
    file.parent.mkdir(parents=True)
    file.touch()
    assert plain.choose([kind])[kind].where == "cache"
    pins = {plain.catalogue.address(kind, "0.33.0"): "1" * 64}
    assert supply_with(runner, **none, pins=pins).choose([kind])[kind].where != "cache"


@pytest.mark.usefixtures("supply")
def test_empty_pin_accepts_any_content(runner: FakeRunner) -> None:
    pause = Item("image", "registry.k8s.io/pause:3.10.1")
    assert supply_with(runner).catalogue.pin(pause, "").startswith("sha256:")
    assert supply_with(runner, pins={pause.name: ""}).catalogue.pin(pause, "") == ""


def test_image_of_the_user_keeps_its_name(runner: FakeRunner, tmp_path: Path) -> None:
    source = "localhost:5001/kai-scheduler/kai-scheduler/binder:v0.16.8"
    runner.handle(INSPECT, out="sha256:own", times=1)
    runner.handle(f"docker image inspect --format {{{{.Id}}}} {source}", code=1)
    runner.handle(f"docker pull -q {source}")
    runner.handle(f"docker tag {source} {NAME}")
    runner.handle("docker save -o", out=write_image)
    runner.handle(INSPECT, out="sha256:pulled")
    runner.handle(f"docker tag sha256:own {NAME}")
    runner.handle(f"docker rmi {source}")
    registry.fetch(NAME, {"ghcr.io": "localhost:5001"}, ContainerEngine(runner), tmp_path / "image")


@pytest.mark.parametrize(
    ("reference", "name"),
    [("a.example:5000/x/y:1", "a.example:5000/x/y"), ("a.example:5000/x/y", "a.example:5000/x/y"), ("x:1", "x")],
)
def test_digest_takes_the_place_of_the_tag(reference: str, name: str) -> None:
    assert registry.pinned(reference, DIGEST) == f"{name}@{DIGEST}"
    assert registry.pinned(reference, "") == reference


def test_concurrent_labs_fetch_an_image_once(supply: Supply, runner: FakeRunner, other: AnotherLab) -> None:
    target = fetched(IMAGE, "", supply.catalogue)
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


def test_image_of_a_bundle_comes_from_there_although_the_engine_has_one(runner: FakeRunner, tmp_path: Path) -> None:
    """Another lab that pulls it has it in the engine for a moment, and the node image's name depends on the source."""
    archive = tmp_path / "binder.tar"
    archive.write_text("image")
    runner.handle(INSPECT, out="sha256:1")
    without, supply = (supply_with(runner, sources=["present", "bundle"]) for _ in range(2))
    without.bundles = ()
    supply.bundles = (create(tmp_path / "bundle", [(IMAGE, "", archive)]),)
    assert without.choose([IMAGE])[IMAGE].where == "docker image store"
    assert supply.choose([IMAGE])[IMAGE].source == "bundle"
    assert supply.identity(IMAGE) == supply.bundles[0].entries[0].sha256
