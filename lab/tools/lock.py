"""Locks between processes, and between the threads of one: the one door to ``filelock``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from lab.errors import Interrupted, LabError


def lock_now(path: Path) -> AbstractContextManager[object] | None:
    """Take a lock; given back when the result, a context, ends. None: somebody else has it.

    Raises:
        LabError: its file cannot be written.
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
    """Hold a lock; wait for it if need be.

    Args:
        path: its file.
        stopped: whether to wait no longer.
        waits: called once if somebody else has it.

    Raises:
        Interrupted: stopped while it waited.
        LabError: its file cannot be written.
    """
    from filelock import FileLock, Timeout  # noqa: TID251 - this is the door

    held = lock_now(path)
    if held is None:
        waits()
        try:
            held = FileLock(path).acquire(cancel_check=stopped)
        except Timeout:
            raise Interrupted(f"stopped while it waited for {path}") from None
    with held:
        yield
