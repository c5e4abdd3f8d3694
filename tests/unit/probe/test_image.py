"""Images with compiled programs: what is compiled, the path in the image, and when it is rebuilt."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from lab import paths
from lab.supply import debian, recipes, resolve
from lab.supply.archive import Layer, layer_from_files
from lab.supply.catalogue import Catalogue, DebLayer, load
from lab.tools.process import Runner
from lab.workloads import pods
from tests.support.fakes import Call, FakeRunner

PAUSE = "registry.k8s.io/pause:3.10.1"


@pytest.fixture
def catalogue() -> Catalogue:
    return load("1.34.4")


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A writable copy of kind/."""
    copy = tmp_path / "kind"
    shutil.copytree(paths.assets("kind"), copy)
    monkeypatch.setattr(recipes, "assets", lambda kind: tmp_path / kind)
    return copy


@pytest.fixture(autouse=True)
def layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace layers of Debian packages by one small file."""

    def layer(recipe: DebLayer, run: Runner) -> Layer:
        file = tmp_path / recipe.name
        file.write_text(recipe.name)
        return layer_from_files(tmp_path / f"{recipe.name}.tar", {f"/etc/{recipe.name}": file})

    monkeypatch.setattr(debian, "layer", layer)


def compiler(runner: FakeRunner, name: str) -> list[Call]:
    """Install a fake compiler and return its calls."""
    runner.has(name)

    def compiled(call: Call) -> str:
        Path(call.argv[call.argv.index("-o") + 1]).write_text("a program")
        return ""

    return runner.handle(name, out=compiled).calls


def test_probe_image_has_program_links_and_packages(catalogue: Catalogue, runner: FakeRunner, tmp_path: Path) -> None:
    calls = compiler(runner, "go")
    archive = recipes.make_image(catalogue.image(pods.IMAGE), catalogue, runner, lambda *_: None)
    (call,) = calls
    assert call.argv[:2] == ("go", "build")
    assert call.cwd == paths.assets("kind") / "probe"
    assert call.env["CGO_ENABLED"] == "0"  # a static binary, independent of the C library

    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "image", filter="data")
    (entry,) = json.loads((tmp_path / "image" / "manifest.json").read_text())
    assert entry["RepoTags"] == [pods.IMAGE]
    config = json.loads((tmp_path / "image" / entry["Config"]).read_text())
    assert config["config"]["Entrypoint"] == ["/usr/bin/probe"]
    *debs, own = entry["Layers"]
    assert len(debs) == 2  # a C library, and busybox: the shell of the suites
    with tarfile.open(tmp_path / "image" / own) as tar:
        assert {"usr/bin/probe", "usr/bin/vllm"} <= set(tar.getnames())
        assert tar.getmember("usr/bin/vllm").linkname == "probe"


@pytest.mark.parametrize(("reference", "tools"), [(pods.IMAGE, {"go", "debian"}), (PAUSE, {"cc"})])
def test_image_build_needs_its_tools(catalogue: Catalogue, reference: str, tools: set[str]) -> None:
    assert resolve._image_needs(catalogue.image(reference)) == tools


def test_image_is_built_once(catalogue: Catalogue, runner: FakeRunner) -> None:
    calls = compiler(runner, "go")
    row = catalogue.image(pods.IMAGE)
    first = recipes.make_image(row, catalogue, runner, lambda *_: None)
    assert recipes.make_image(row, catalogue, runner, lambda *_: None) == first
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("reference", "file"), [(pods.IMAGE, "probe/echo.go"), (pods.IMAGE, "probe/go.mod"), (PAUSE, "node/pause.c")]
)
def test_changed_sources_change_the_archive_path(
    catalogue: Catalogue, sources: Path, reference: str, file: str
) -> None:
    row = catalogue.image(reference)
    before = recipes.archive_path(row, catalogue)
    assert before == recipes.archive_path(row, catalogue)
    (sources / file).write_text((sources / file).read_text() + "\n")
    assert recipes.archive_path(row, catalogue) != before


def test_pause_is_linked_statically(catalogue: Catalogue, runner: FakeRunner) -> None:
    calls = compiler(runner, "gcc")
    recipes.make_image(catalogue.image(PAUSE), catalogue, runner, lambda *_: None)
    ((*words,),) = [call.argv for call in calls]
    assert "-static" in words
    assert [Path(word).name for word in words if word.endswith(".c")] == ["pause.c"]
