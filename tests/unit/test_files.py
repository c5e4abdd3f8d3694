"""Files and directories are replaced atomically."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.files import remove, replacing, write_atomic


def test_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x"
    write_atomic(path, "one")
    write_atomic(path, b"two")
    assert path.read_text() == "two"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(("mode", "expected"), [(0o666, 0o644), (0o600, 0o600)])
def test_mode_of_a_file_respects_the_umask(tmp_path: Path, mode: int, expected: int) -> None:
    before = os.umask(0o022)
    try:
        write_atomic(tmp_path / "x", "", mode)
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == expected


def test_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("before")

    def fail() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        fail()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_directory_with_a_mount_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "root" / "sys").mkdir(parents=True, mode=0o755)
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "sys")
    remove(tmp_path / "root")
    assert (tmp_path / "root" / "sys").stat().st_mode & 0o777 == 0o755
    monkeypatch.undo()
    remove(tmp_path / "root")
    assert not (tmp_path / "root").exists()


def test_directory_is_replaced_and_a_failed_one_removed(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    for name in ("old", "new"):
        with replacing(target) as temporary:
            temporary.mkdir()
            (temporary / name).touch()
    assert [path.name for path in target.iterdir()] == ["new"]

    def fail() -> None:
        with replacing(target) as temporary:
            temporary.mkdir()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == [target]


def test_all_files_are_on_the_disk_before_they_replace_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, order = tmp_path / "target", list[str]()
    replace = Path.replace

    def synced(descriptor: int) -> None:
        order.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    def replaced(path: Path, to: Path) -> Path:
        order.append("replaced")
        return replace(path, to)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    with replacing(target) as temporary:
        (temporary / "deep").mkdir(parents=True)
        (temporary / "deep" / "file").write_text("x")
    assert order == ["deep", "file", temporary.name, "replaced"]
