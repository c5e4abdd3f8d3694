"""Write files and directories atomically."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a free path beside ``target``; the file or directory created there replaces it if the block succeeds.

    If the block fails, the new one is removed and ``target`` stays as it was. Raises OSError.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    temporary = Path(name)
    temporary.unlink()
    try:
        yield temporary
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        temporary.replace(target)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


def append_private(path: Path) -> TextIO:
    """Open a file at its end; only its owner may read it. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    file = os.fdopen(descriptor, "a", encoding="utf-8", errors="replace")
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, 0o600)  # of an older kailab
    return file


def write_atomic(path: Path, content: str | bytes, mode: int = 0o666) -> None:
    """Write and sync a file; the umask applies to ``mode``. Raises OSError."""
    with replacing(path) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
