"""Sums (sha256) of what the cache and bundles have: recorded when it is made, compared when it is used.

Each record is a file in the cache's folder ``sums``: the sum, and a stamp of the sizes and times that the content had
when it was last read. While the stamp is the same, the content is not read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path

from lab.files import write_atomic
from lab.paths import cache_path


def digest(path: Path) -> str:
    """Hex sha256 of a file, or of the names and sums of a folder's files. Raises OSError."""
    if path.is_dir():
        sums = {str(file.relative_to(path)): digest(file) for file in _files(path)}
        return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damage(path: Path, sha256: str = "", *, read: bool = False) -> str:
    """How a file or folder differs from ``sha256`` or from its recorded sum, or an empty text.

    Its content is read if sizes or times have changed since the last time, or with ``read``. What has no sum yet gets
    one: it is from before sums were recorded.
    """
    try:
        stamp = _stamp(path)
        known, seen = _recorded(_record(path))
        expected = sha256 or known
        if not read and (expected, stamp) == (known, seen):
            return ""
        found = digest(path)
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if expected and found != expected:
        _write(path, expected, "")  # until it is made again
        return f"sha256 {found[:16]}…, expected {expected[:16]}…"
    _write(path, found, stamp)
    return ""


def record(path: Path) -> None:
    """Record the sum of what was just made. Raises OSError."""
    stamp = _stamp(path)
    _write(path, digest(path), stamp)


def check_all(*, read: bool = False) -> tuple[int, dict[Path, str]]:
    """Check what has a sum in the cache, but for bundles: how many, and what is damaged. Forgets what is gone."""
    count, wrong = 0, {}
    for file in sorted((cache_path() / "sums").glob("*.json")):
        try:
            path = cache_path() / json.loads(file.read_text())["path"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if not path.exists():
            with contextlib.suppress(OSError):
                file.unlink()
        elif path.is_relative_to(cache_path()) and not path.is_relative_to(cache_path() / "bundles"):
            count += 1
            if why := damage(path, read=read):
                wrong[path] = why
    return count, wrong


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _stamp(path: Path) -> str:
    files = _files(path) if path.is_dir() else [path]
    seen = [(str(file.relative_to(path)), (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files]
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:16]


def _inside(path: Path) -> str:
    """The path in the cache, which may move; other paths are absolute."""
    return str(path.absolute()).removeprefix(f"{cache_path()}/")


def _record(path: Path) -> Path:
    return cache_path() / "sums" / f"{hashlib.sha256(os.fsencode(_inside(path))).hexdigest()[:16]}.json"


def _recorded(file: Path) -> tuple[str, str]:
    try:
        data = json.loads(file.read_text())
        return str(data["sha256"]), str(data["stamp"])
    except (OSError, ValueError, KeyError, TypeError):
        return "", ""


def _write(path: Path, sha256: str, stamp: str) -> None:
    data = {"path": _inside(path), "sha256": sha256, "stamp": stamp}
    with contextlib.suppress(OSError, ValueError):  # a full or read-only disk: it is read again next time
        write_atomic(_record(path), json.dumps(data) + "\n", sync=False)  # likewise after a power cut
