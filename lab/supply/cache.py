"""The cache on disk: where a made or fetched thing lies, and how it gets there whole or not at all."""

from __future__ import annotations

import contextlib
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


def key_of(*parts: Any) -> str:
    """A short name for content: 12 hex digits of a sha256 over the parts as JSON."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:12]


def place(kind: str, name: str, key: str) -> Path:
    """Where the thing ``name`` of that kind lies in the cache; the key is part of the path."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "_", name)
    return cache_root() / kind / f"{slug}-{key}"


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A temporary path beside ``target`` that takes its place when the block ends well, and goes when it does not.

    Raises:
        LabError: the disk is full or the directory cannot be written.
    """
    try:
        with files.replacing(target) as temporary:
            yield temporary
    except OSError as error:
        if error.errno is None:
            raise
        raise LabError(
            f"{target} cannot be written: {error.strerror}",
            fix="free disk space (the cache directory can be deleted: 'lab doctor' names it) and run again",
        ) from error


def alone(
    name: str, stopped: Callable[[], bool], waits: Callable[[], object] = lambda: None
) -> AbstractContextManager[None]:
    """The right to make what ``name`` names: no other thread and no other lab on this machine has it meanwhile.

    Args:
        name: what is made, the same for all that make it.
        stopped: whether to wait no longer.
        waits: called once if another one has the right.

    Raises:
        Interrupted: stopped while it waited.
        LabError: the disk is full or the cache cannot be written.
    """
    return lock(place("locks", f"{Path(name).name}.lock", key_of(name)), stopped, waits)


@contextlib.contextmanager
def making(
    target: Path, run: Runner | None = None, progress: Callable[[str, int | None, int | None], object] = lambda *_: None
) -> Iterator[bool]:
    """Hold the right to make ``target``; whether it still has to be made (another process may have been quicker).

    Args:
        target: what is made.
        run: whose cancel ends the waiting; None: what is made takes seconds, and is waited for.
        progress: told if another one makes it.

    Raises:
        Interrupted: the run was cancelled while another process made it.
    """
    if target.exists():
        yield False
        return
    stopped = run.stopped if run else lambda: False
    with alone(str(target), stopped, lambda: progress(f"{target.name} is being made already; waiting", None, None)):
        yield not target.exists()
