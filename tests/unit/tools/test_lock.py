"""Locks: free, taken, waited for, and those whose file cannot be made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.errors import Interrupted, LabError
from lab.tools.lock import lock, lock_now


def elsewhere(act: Callable[[], object]) -> object:
    """What a call gives in another thread."""
    given: list[object] = []
    thread = threading.Thread(target=lambda: given.append(act()))
    thread.start()
    thread.join()
    return given[0]


def test_a_lock_is_one_threads_and_free_again_after_its_block(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "a.lock"
    held = lock_now(path)
    assert held is not None
    with held:
        assert elsewhere(lambda: lock_now(path)) is None
        assert elsewhere(lambda: lock_now(tmp_path / "locks" / "b.lock")) is not None
    with pytest.raises(ValueError, match="its own"), lock(path, lambda: True):
        raise ValueError("its own")
    assert lock_now(path) is not None


def test_one_who_waits_says_so_once_and_gets_it(tmp_path: Path) -> None:
    path, said, got = tmp_path / "a.lock", threading.Event(), threading.Event()

    def second() -> None:
        with lock(path, lambda: False, said.set):
            got.set()

    thread = threading.Thread(target=second)
    with lock(path, lambda: False, lambda: pytest.fail("it is free")):
        thread.start()
        assert said.wait(10)
        assert not got.is_set()
    assert got.wait(10)
    thread.join()


def test_one_who_waits_can_be_stopped(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"

    def second() -> str:
        with pytest.raises(Interrupted) as caught, lock(path, lambda: True):
            pytest.fail("it went on")
        return caught.value.what

    with lock(path, lambda: True):
        assert elsewhere(second) == f"stopped while waiting for {path}"


def test_a_lock_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match=r"file/a\.lock cannot be written: ") as caught:
        lock_now(tmp_path / "file" / "a.lock")
    assert "KAILAB_STATE" in caught.value.fix
