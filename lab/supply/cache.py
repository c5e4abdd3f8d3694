"""The cache on disk: paths of built and downloaded items, and locks while they are made."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from lab import files
from lab.errors import LabError
from lab.paths import cache_root
from lab.tools.lock import lock
from lab.tools.process import Runner

Progress = Callable[[str, int | None, int | None], None]
"""Called with a text and, if known, what is done and the total."""


def silent(text: str, done: int | None, total: int | None) -> None:
    """Ignore progress."""


def key_of(*parts: Any) -> str:
    """A short name for content: 12 hex digits of the sha256 of the parts as JSON."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:12]


def place(kind: str, name: str, key: str) -> Path:
    """Path in the cache of an item of that kind, name and key."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "_", name)
    return cache_root() / kind / f"{slug}-{key}"


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Like ``files.replacing``, but raises LabError when the disk is full or the directory cannot be written."""
    try:
        with files.replacing(target) as temporary:
            yield temporary
    except OSError as error:
        if error.errno is None:
            raise
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise LabError(
            f"{target} cannot be written: {error.strerror}",
            fix="free disk space (the cache directory can be deleted: 'lab doctor' names it) and run again"
            if full
            else f"make {target.parent} writable, or set KAILAB_CACHE to another directory, and run again",
        ) from error


def alone(
    name: str, stopped: Callable[[], bool], waits: Callable[[], object] = lambda: None
) -> AbstractContextManager[None]:
    """Hold the exclusive right, on this machine, to make ``name``; see ``lock`` for the parameters and errors."""
    return lock(place("locks", f"{Path(name).name}.lock", key_of(name)), stopped, waits)


@contextlib.contextmanager
def making(target: Path, run: Runner | None = None, progress: Progress = silent) -> Iterator[bool]:
    """Hold the exclusive right to make ``target``, and yield whether it still has to be made.

    Reports to ``progress`` if another process is making it, and waits until then or until ``run`` is cancelled, which
    raises Interrupted.
    """
    if target.exists():
        yield False
        return
    stopped = run.stopped if run else lambda: False
    with alone(
        str(target), stopped, lambda: progress(f"waiting for another process to make {target.name}", None, None)
    ):
        yield not target.exists()
