"""File locks: free, held, waited for, and not writable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.errors import Interrupted, LabError
from lab.tools.lock import lock, lock_now


def in_thread(act: Callable[[], object]) -> object:
    """Return the result of a call made in another thread."""
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(act()))
    thread.start()
    thread.join()
    return results[0]


def test_lock_excludes_other_threads_until_its_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "a.lock"
    held = lock_now(path)
    assert held is not None
    with held:
        assert in_thread(lambda: lock_now(path)) is None
        assert in_thread(lambda: lock_now(tmp_path / "locks" / "b.lock")) is not None
    with pytest.raises(ValueError, match="its own"), lock(path, lambda: True):
        raise ValueError("its own")
    assert lock_now(path) is not None


def test_waiter_reports_that_it_waits_and_acquires_the_lock(tmp_path: Path) -> None:
    path, waiting, acquired = tmp_path / "a.lock", threading.Event(), threading.Event()

    def second() -> None:
        with lock(path, lambda: False, waiting.set):
            acquired.set()

    thread = threading.Thread(target=second)
    with lock(path, lambda: False, lambda: pytest.fail("waits although the lock is free")):
        thread.start()
        assert waiting.wait(10)
        assert not acquired.is_set()
    assert acquired.wait(10)
    thread.join()


def test_waiting_can_be_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"

    def second() -> str:
        with pytest.raises(Interrupted) as caught, lock(path, lambda: True):
            pytest.fail("acquired a held lock")
        return caught.value.what

    with lock(path, lambda: True):
        assert in_thread(second) == f"stopped while waiting for {path}"


def test_unwritable_lock_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match=r"file/a\.lock cannot be written: ") as caught:
        lock_now(tmp_path / "file" / "a.lock")
    assert "KAILAB_STATE" in caught.value.fix
