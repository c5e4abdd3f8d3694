"""What several labs need from the cache is made by one of them; the others wait, and can be stopped."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from lab.errors import Interrupted, LabError
from lab.supply.cache import making
from tests.support.another_lab import AnotherLab
from tests.support.fakes import FakeRunner


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "images" / "thing.tar-abc"


def make(target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    target.touch()


def test_one_that_waits_says_so_and_finds_what_was_made_meanwhile(
    target: Path, runner: FakeRunner, other: AnotherLab
) -> None:
    said: list[str] = []

    def told(text: str, *_: object) -> None:
        said.append(text)
        make(target)
        other.ends()

    assert other.begins(str(target))
    with making(target, runner, told) as needed:
        assert not needed
    assert said == ["waiting for another process to make thing.tar-abc"]


def test_one_that_waits_stops_when_its_run_is_cancelled(target: Path, runner: FakeRunner, other: AnotherLab) -> None:
    def cancel(*_: object) -> None:
        runner.cancelled = True

    assert other.begins(str(target))
    with (
        pytest.raises(Interrupted, match=r"stopped while waiting for .*/locks/thing\.tar-abc"),
        making(target, runner, cancel),
    ):
        pytest.fail("it went on")


def test_what_failed_is_made_by_the_next(target: Path, runner: FakeRunner, other: AnotherLab) -> None:
    with contextlib.suppress(OSError), making(target, runner) as needed:
        assert needed
        assert not other.begins(str(target))
        raise OSError("disk full")
    assert other.begins(str(target))


def test_what_is_there_needs_no_lock(target: Path, runner: FakeRunner, tmp_path: Path) -> None:
    make(target)
    with making(target, runner) as needed:
        assert not needed
    assert not (tmp_path / "cache" / "locks").exists()


def test_a_cache_that_cannot_be_written_is_named(target: Path, runner: FakeRunner, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "locks").touch()  # instead of the folder
    with pytest.raises(LabError, match=r"cache/locks/thing\.tar-abc\.lock-\w+ cannot be written: File exists"):
        making(target, runner).__enter__()
