"""Locks between processes and between the threads of one; the only module that imports ``filelock``."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from lab.errors import Interrupted, LabError


def lock_now(path: Path) -> AbstractContextManager[object] | None:
    """Acquire a lock file without waiting: a context that releases it, or None if it is held.

    Raises LabError when the file cannot be written.
    """
    from filelock import FileLock, Timeout  # noqa: TID251 - this is the door

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(path).acquire(blocking=False)
    except Timeout:
        return None
    except OSError as error:
        raise LabError(
            f"{path} cannot be written: {error.strerror}",
            fix="free disk space, or set KAILAB_STATE and KAILAB_CACHE to directories you can write",
        ) from error


@contextmanager
def lock(path: Path, stopped: Callable[[], bool], waits: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Hold a lock; if it is held elsewhere, call ``waits`` once and wait for it.

    Raises Interrupted once ``stopped`` is true while it waits, and LabError when the file cannot be written.
    """
    from filelock import FileLock, Timeout  # noqa: TID251 - this is the door

    held = lock_now(path)
    if held is None:
        waits()
        try:
            held = FileLock(path).acquire(cancel_check=stopped)
        except Timeout:
            raise Interrupted(f"stopped while waiting for {path}") from None
    with held:
        yield


@contextmanager
def file_lock(path: Path, *, exclusive: bool, wait: bool = True) -> Iterator[int]:
    """Hold a file's lock, shared or exclusively, and yield its descriptor; creates the file if it is missing.

    The kernel releases it when the process ends. Raises BlockingIOError if others hold it and ``wait`` is False.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("a") as file:
        if exclusive:
            path.touch()  # shows the holders that another process waits, and since when
        fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB))
        yield file.fileno()  # closing the file releases the lock
