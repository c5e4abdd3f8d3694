"""Journal records of changes to this machine, and files that can be restored byte for byte."""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import PurePosixPath

from lab.engine.journal import Journal, Owned
from lab.host.machine import Machine
from lab.tools.process import Runner

EDIT = "edit"
"""Kind of record for a file that another fix may have changed before, under the kind ``file``.

Each fix restores what it found, the last one first.
"""

_NEW = ".kailab"
"""After a file's name: its new content, until it replaces the file."""


def records(journal: Journal, step: str, kind: str | None = None) -> list[Owned]:
    """Changes made by a fix, latest first."""
    return [found for found in reversed(journal.owned(kind)) if found.step == step]


def record(journal: Journal, kind: str, name: str) -> Owned | None:
    """The record of one change, or None."""
    return next((found for found in journal.owned(kind) if found.name == name), None)


def old_bytes(change: Owned) -> bytes | None:
    """Content of a file before a recorded change; None if it did not exist."""
    before = change.facts["before"]
    return b64decode(before.removeprefix("base64:")) if before else None


def unchanged(machine: Machine, change: Owned) -> bool:
    """Whether a file still has content that the lab wrote, without anybody's later edits."""
    return _digest(machine.data(change.name)) in change.facts["written"].split(":")


def write_file(
    run: Runner,
    machine: Machine,
    journal: Journal,
    step: str,
    path: str,
    content: bytes,
    mode: str = "0644",
    kind: str = "file",
) -> bool:
    """Write a file as root after recording its old content. Return False if it has that content already.

    The record has the digests of all contents that the lab wrote. It has none if somebody edited the file in between:
    the new content has these edits, which no undo may lose.
    """
    now = machine.data(path)
    if now == content:
        return False
    earlier = record(journal, kind, path)
    written = _digest(content)
    if earlier is not None:
        before, old_mode, made = (earlier.facts[key] for key in ("before", "mode", "made"))
        ours = now in (None, old_bytes(earlier)) or unchanged(machine, earlier)
        written = f"{earlier.facts['written']}:{written}" if ours else ""
    else:
        before = "" if now is None else f"base64:{b64encode(now).decode()}"
        old_mode = "" if now is None else _mode(machine, path)
        parents = map(str, PurePosixPath(path).parents)
        made = ":".join(parent for parent in parents if not machine.path(parent).exists())
    journal.owns(kind, path, step, before=before, mode=old_mode, made=made, written=written)
    _install(machine.as_root(run), _real(machine, path), content, old_mode or mode)
    return True


def restore_file(
    run: Runner, machine: Machine, journal: Journal, change: Owned, strip: Callable[[bytes], bytes] | None = None
) -> str:
    """Restore a file's old content, or remove the file if it did not exist. Return a description of what was done.

    A file that somebody else changed later is not overwritten: ``strip`` removes the lab's part from its content, and
    without ``strip`` the file is left alone.
    """
    path, root = change.name, machine.as_root(run)
    now, before, real = machine.data(path), old_bytes(change), _real(machine, path)
    if machine.path(new := f"{real}{_NEW}").exists():  # of a write that was killed
        root.run(["rm", "-f", new])
    if now is None or now == before:
        done = f"{path} needed no change"
    elif not unchanged(machine, change):
        if strip is None:
            journal.released(change.kind, path)
            return f"{path} kept: it was changed after the lab wrote it"
        _install(root, real, strip(now), _mode(machine, path))
        done = f"{path}: removed the lab's settings, kept later changes"
    elif before is None:
        root.run(["rm", "-f", real])
        done = f"{path} removed"
    else:
        _install(root, real, before, change.facts["mode"])
        done = f"{path} restored"
    for directory in filter(None, change.facts["made"].split(":")):
        root.run(["rmdir", "--ignore-fail-on-non-empty", directory], check=False)
    journal.released(change.kind, path)
    return done


def _digest(content: bytes | None) -> str:
    return "missing" if content is None else hashlib.sha256(content).hexdigest()


def _real(machine: Machine, path: str) -> str:
    """The file behind symbolic links: a rename to a link's own path would replace the link."""
    real, root = machine.path(path).resolve(), machine.root.resolve()
    return f"/{real.relative_to(root)}" if real.is_relative_to(root) else path


def _mode(machine: Machine, path: str) -> str:
    return f"{machine.path(path).stat().st_mode & 0o7777:04o}"


def _install(root: Runner, path: str, content: bytes, mode: str) -> None:
    # The rename ensures that the file is never half written; install -D creates missing directories.
    root.run(["install", "-D", "-m", mode, "/dev/stdin", f"{path}{_NEW}"], stdin=content)
    root.run(["mv", "-f", f"{path}{_NEW}", path])
