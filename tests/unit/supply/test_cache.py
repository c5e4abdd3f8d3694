"""One process makes a file of the cache; others that need it wait, and can be stopped."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest

from lab.errors import CommandFailed, Interrupted, LabError
from lab.supply.cache import making, replacing
from tests.support.another_lab import AnotherLab
from tests.support.fakes import FakeRunner


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "images" / "thing.tar-abc"


def make(target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    target.touch()


def test_waiting_process_reports_it_and_uses_the_finished_file(
    target: Path, runner: FakeRunner, other: AnotherLab
) -> None:
    messages: list[str] = []

    def finish(text: str, *_: object) -> None:
        messages.append(text)
        make(target)
        other.ends()

    assert other.begins(str(target))
    with making(target, runner, finish) as needed:
        assert not needed
    assert messages == ["waiting for another process to make thing.tar-abc"]


def test_waiting_process_stops_when_its_run_is_cancelled(target: Path, runner: FakeRunner, other: AnotherLab) -> None:
    def cancel(*_: object) -> None:
        runner.cancelled = True

    assert other.begins(str(target))
    with (
        pytest.raises(Interrupted, match=r"stopped while waiting for .*/locks/thing\.tar-abc"),
        making(target, runner, cancel),
    ):
        pytest.fail("it did not stop")


def test_next_process_retries_after_a_failure(target: Path, runner: FakeRunner, other: AnotherLab) -> None:
    with contextlib.suppress(OSError), making(target, runner) as needed:
        assert needed
        assert not other.begins(str(target))
        raise OSError("disk full")
    assert other.begins(str(target))


def test_existing_file_needs_no_lock(target: Path, runner: FakeRunner, tmp_path: Path) -> None:
    make(target)
    with making(target, runner) as needed:
        assert not needed
    assert not (tmp_path / "cache" / "locks").exists()


def test_unwritable_cache_is_named(target: Path, runner: FakeRunner, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "locks").touch()  # instead of the folder
    with pytest.raises(LabError, match=r"cache/locks/thing\.tar-abc\.lock-\w+ cannot be written: File exists"):
        making(target, runner).__enter__()


@pytest.mark.parametrize(
    ("number", "fix"), [(errno.ENOSPC, "free disk space"), (errno.EDQUOT, "free disk space"), (errno.EROFS, "writable")]
)
def test_next_action_fits_the_reason(target: Path, number: int, fix: str) -> None:
    with pytest.raises(LabError) as caught, replacing(target):
        raise OSError(number, "reason")
    assert fix in caught.value.fix


def test_full_disk_that_a_command_meets_has_a_next_action(target: Path, runner: FakeRunner) -> None:
    with pytest.raises(CommandFailed) as caught, making(target, runner):
        raise CommandFailed(["cc"], 1, err="ld: final link failed: No space left on device")
    assert caught.value.fix.startswith("free disk space")


def test_temporary_files_of_killed_processes_go_unless_another_process_uses_them(
    target: Path, runner: FakeRunner, other: AnotherLab
) -> None:
    names = (f".{target.name}.kailab-aaaaaaaa", ".used.kailab-bbbbbbbb", ".left.kailab-cccccccc", ".left.backup")
    own, used, left, users = map(target.with_name, names)
    for folder in (own, used, left, users):
        (folder / "read-only").mkdir(parents=True)
        (folder / "read-only" / "file").touch()
        (folder / "read-only").chmod(0o555)
    assert other.begins(str(target.with_name("used")))
    with making(target, runner) as needed:
        assert needed
    assert sorted(target.parent.iterdir()) == sorted([used, users])
