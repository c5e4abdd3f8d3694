"""The cache on disk: paths of built and downloaded items, and locks while they are made."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from lab import files, sums
from lab.errors import CommandFailed, LabError
from lab.paths import cache_path, cache_root
from lab.tools.lock import lock, lock_now
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


_FULL = "free disk space (the cache directory can be deleted: 'kailab doctor' names it) and run again"


@contextlib.contextmanager
def _explained(target: Path) -> Iterator[None]:
    """Turn an OSError into a LabError with the one thing to do, and add that to a command's error for a full disk."""
    try:
        yield
    except CommandFailed as error:
        if not error.fix and os.strerror(errno.ENOSPC).lower() in f"{error.out}{error.err}".lower():
            error.fix = _FULL
        raise
    except OSError as error:
        if error.errno is None and not isinstance(error, shutil.Error):
            raise
        text = error.strerror or "; ".join(dict.fromkeys(str(why) for *_, why in error.args[0]))  # shutil.Error's
        inside = target.is_relative_to(cache_path())
        elsewhere = "set KAILAB_CACHE to another directory" if inside else "choose another path"
        full = error.errno in (errno.ENOSPC, errno.EDQUOT) or os.strerror(errno.ENOSPC) in text
        fix = _FULL if full else f"make {target.parent} writable, or {elsewhere}, and run again"
        raise LabError(f"{target} cannot be written: {text}", fix=fix) from error


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Like ``files.replacing``, but raises LabError when the disk is full or the directory cannot be written."""
    with _explained(target), files.replacing(target) as temporary:
        yield temporary


@contextlib.contextmanager
def scratch(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside ``target`` to make it in; the folder is removed at the end. Raises LabError.

    What a killed process leaves there is removed by the next ``making``.
    """
    with _explained(target), files.temporary(target) as folder:
        folder.mkdir()
        yield folder


def alone(
    name: str, stopped: Callable[[], bool] = lambda: False, waits: Callable[[], object] = lambda: None
) -> AbstractContextManager[None]:
    """Hold the exclusive right, on this machine, to make ``name``; see ``lock`` for the parameters and errors."""
    return lock(_lock_of(name), stopped, waits)


@contextlib.contextmanager
def making(target: Path, run: Runner | None = None, progress: Progress = silent) -> Iterator[bool]:
    """Hold the exclusive right to make ``target``, and yield whether it still has to be made, as a damaged one does.

    Records its sum then. Reports to ``progress`` if another process is making it, and waits until then or until ``run``
    is cancelled, which raises Interrupted. Raises LabError if it cannot be written.
    """
    if not sums.damage(target):
        yield False
        return
    stopped = run.stopped if run else lambda: False
    with alone(
        str(target), stopped, lambda: progress(f"waiting for another process to make {target.name}", None, None)
    ):
        why = sums.damage(target)
        if why and target.exists():
            progress(f"{target.name} is damaged ({why}); making it again", None, None)
        if why:
            sweep(target)
        with _explained(target):
            yield bool(why)
            if why and target.exists():
                sums.record(target)


def sweep(target: Path, *, others: bool = True) -> None:
    """Remove what killed processes left beside ``target``, whose lock is held, and beside what nobody makes now."""
    for left in target.parent.glob(".*"):
        found = files.TEMPORARY.fullmatch(left.name)
        if found is None:
            continue
        if found["target"] == target.name:
            files.remove(left)
        elif others and (held := lock_now(_lock_of(str(left.with_name(found["target"]))))):
            with held:
                files.remove(left)


def _lock_of(name: str) -> Path:
    name = name.removeprefix(f"{cache_path()}/")  # the cache may have another path in another container
    return place("locks", f"{Path(name).name}.lock", key_of(name))
