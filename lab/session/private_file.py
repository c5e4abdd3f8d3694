"""Files in the lab's state that only their owner can read."""

from __future__ import annotations

from pathlib import Path

from lab.errors import LabError
from lab.files import write_atomic


def write_private(path: Path, text: str) -> None:
    """Write a file atomically that only its owner can read (mode 0600). Raises LabError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(path, text, mode=0o600)
    except OSError as error:
        raise LabError(
            f"{path} cannot be written: {error.strerror}", fix="free space or fix the permissions of that directory"
        ) from error
