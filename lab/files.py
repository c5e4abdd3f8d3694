"""Write files and directories atomically."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

TEMPORARY = re.compile(r"\.(?P<target>.+)\.kailab-[a-z0-9_]{8}(\.\w+)?")
"""Names of temporary files and directories beside the target that is written."""


@contextlib.contextmanager
def temporary(target: Path) -> Iterator[Path]:
    """Yield a free path beside ``target``; what is created there is removed at the end. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.kailab-")
    os.close(handle)
    path = Path(name)
    path.unlink()
    try:
        yield path
    finally:
        remove(path)


@contextlib.contextmanager
def replacing(target: Path, *, sync: bool = True) -> Iterator[Path]:
    """Yield a free path beside ``target``; the file or directory created there replaces it if the block succeeds.

    With ``sync`` it is on the disk before it does. If the block fails, the new one is removed and ``target`` stays.
    Raises OSError.
    """
    with temporary(target) as path:
        yield path
        if sync:
            _sync(path)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        path.replace(target)


def append_private(path: Path) -> TextIO:
    """Open a file at its end; only its owner may read it. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    file = os.fdopen(descriptor, "a", encoding="utf-8", errors="replace")
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, 0o600)  # of an older kailab
    return file


def write_atomic(path: Path, content: str | bytes, mode: int = 0o666, *, sync: bool = True) -> None:
    """Write a file; the umask applies to ``mode``. Raises OSError."""
    with replacing(path, sync=sync) as new:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)


def remove(path: Path) -> None:
    """Remove a file or directory as far as possible, also with read-only directories in it.

    A directory with mounts in it stays as it is: what they show belongs to the machine, such as modes in sysfs.
    """
    if path.is_symlink() or not path.is_dir():
        with contextlib.suppress(OSError):
            path.unlink()
        return
    for folder, _, _ in os.walk(path):
        if Path(folder).is_mount():
            return
        with contextlib.suppress(OSError):
            Path(folder).chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)


def _sync(path: Path) -> None:
    for part in [*path.rglob("*"), path]:
        if part.is_symlink() or not (part.is_file() or part.is_dir()):
            continue
        descriptor = os.open(part, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
