"""Paths of state, cache, labs and assets."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from lab import paths
from lab.errors import LabError
from lab.paths import LabPaths, cache_root, lab_names, state_root


def test_state_and_cache_follow_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KAILAB_STATE", str(tmp_path / "s"))
    monkeypatch.setenv("KAILAB_CACHE", str(tmp_path / "c"))
    assert paths.state_root() == tmp_path / "s"
    assert paths.cache_root() == tmp_path / "c"
    assert paths.bundles_root() == tmp_path / "c" / "bundles"


def test_default_paths_follow_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KAILAB_STATE")
    monkeypatch.delenv("KAILAB_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xs"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xc"))
    assert paths.state_root() == tmp_path / "xs" / "kailab"
    assert paths.cache_root() == tmp_path / "xc" / "kailab"


def test_relative_override_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAILAB_STATE", "here")
    assert paths.state_root() == tmp_path / "here"


def test_tilde_in_override_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KAILAB_STATE", "~/labs")
    assert paths.state_root() == tmp_path / "labs"


def test_state_that_nodes_cannot_mount_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAILAB_STATE", "/home/x/12:30")
    with pytest.raises(LabError, match="the state directory /home/x/12:30 has a ':'"):
        state_root()


def test_cache_has_a_cachedir_tag(tmp_path: Path) -> None:
    tag = paths.cache_root() / "CACHEDIR.TAG"
    assert tag.read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    tag.write_text("mine")
    assert (paths.cache_root() / "CACHEDIR.TAG").read_text() == "mine"


def test_reading_paths_creates_nothing(tmp_path: Path) -> None:
    lab = LabPaths("demo")
    assert lab.journal.parent == lab.root == tmp_path / "state" / "labs" / "demo"
    assert list(tmp_path.iterdir()) == []


def test_labs_do_not_share_files() -> None:
    one, two = LabPaths("one"), LabPaths("two")
    names = ["journal", "spec", "lock", "log", "kubeconfig", "runs"]
    assert {getattr(one, name) for name in names}.isdisjoint({getattr(two, name) for name in names})
    assert len({getattr(one, name) for name in names}) == len(names)
    assert one.tenant_kubeconfig("a") != one.tenant_kubeconfig("b")
    assert one.tenant_kubeconfig("a") != two.tenant_kubeconfig("a")


def test_lock_runs_and_journal_are_outside_the_lab_directory() -> None:
    lab = LabPaths("demo")
    for path in (lab.lock, lab.runs, paths.host_journal()):
        assert lab.root not in path.parents


@pytest.mark.parametrize("kind", ["kind", "manifests"])
def test_assets_of_a_checkout_are_at_its_root(kind: str) -> None:
    assert paths.assets(kind) == Path(__file__).parents[2] / kind


def test_assets_of_a_wheel_are_in_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lab" / "_assets" / "kind").mkdir(parents=True)
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "lab" / "paths.py"))
    assert paths.assets("kind") == tmp_path / "lab" / "_assets" / "kind"


def test_labs_are_state_folders_with_valid_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAILAB_STATE", str(tmp_path))
    assert lab_names() == ()
    for name in ("b", "a-1", "lost+found", "Demo"):
        (tmp_path / "labs" / name).mkdir(parents=True)
    (tmp_path / "labs" / "file").touch()
    assert lab_names() == ("a-1", "b")
    monkeypatch.setenv("KAILAB_STATE", str(tmp_path / "labs" / "file"))
    assert lab_names() == ()


def test_unreadable_state_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAILAB_STATE", str(tmp_path))

    def refused(path: Path) -> NoReturn:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(LabError, match="/labs cannot be read: Permission denied") as caught:
        lab_names()
    assert "KAILAB_STATE" in caught.value.fix


def test_cache_that_cannot_be_created_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KAILAB_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(LabError, match="file/cache cannot be created: Not a directory") as caught:
        cache_root()
    assert "KAILAB_CACHE" in caught.value.fix
