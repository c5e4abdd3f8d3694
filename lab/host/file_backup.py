"""Records of changes to the machine, and files that can be put back byte for byte."""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Protocol

from lab.host.machine import Machine
from lab.tools.process import Runner


class FileRecord(Protocol):
    """One change that the journal remembers."""

    @property
    def kind(self) -> str:
        """What was changed: package, file, directory, sysctl, mount, daemon, service, alternative, group."""
        ...

    @property
    def name(self) -> str:
        """Which one."""
        ...

    @property
    def step(self) -> str:
        """Id of the fix that changed it."""
        ...

    @property
    def facts(self) -> Mapping[str, str]:
        """What undoing needs to know."""
        ...


class HostJournal(Protocol):
    """The part of ``lab.engine.journal.Journal`` that fixes use."""

    def owns(self, kind: str, name: str, step: str, **facts: str) -> None:
        """Remember a change before it is made."""
        ...

    def released(self, kind: str, name: str) -> None:
        """Remember that it is undone."""
        ...

    def owned(self, kind: str | None = None) -> Sequence[FileRecord]:
        """What is remembered now, in the order it was claimed."""
        ...


def records(journal: HostJournal, step: str, kind: str | None = None) -> list[FileRecord]:
    """What a fix has changed, latest first."""
    return [record for record in reversed(journal.owned(kind)) if record.step == step]


def record(journal: HostJournal, kind: str, name: str) -> FileRecord | None:
    """The record of one thing."""
    return next((found for found in journal.owned(kind) if found.name == name), None)


def write_file(
    run: Runner, machine: Machine, journal: HostJournal, step: str, path: str, content: bytes, mode: str
) -> bool:
    """Write a file with root's rights, after its old bytes are in the journal.

    Returns:
        Whether anything was written.
    """
    now = machine.data(path)
    if now == content:
        return False
    known = record(journal, "file", path)
    if known is not None:
        before, old_mode, made = (known.facts[key] for key in ("before", "mode", "made"))
    else:
        before = "" if now is None else f"base64:{b64encode(now).decode()}"
        old_mode = "" if now is None else f"{machine.path(path).stat().st_mode & 0o7777:04o}"
        missing = [str(parent) for parent in PurePosixPath(path).parents if not machine.path(str(parent)).exists()]
        made = ":".join(missing)
    digest = hashlib.sha256(content).hexdigest()
    journal.owns("file", path, step, before=before, mode=old_mode, made=made, written=digest)
    _install(machine.hands(run), path, content, old_mode or mode)
    return True


def put_back(
    run: Runner,
    machine: Machine,
    journal: HostJournal,
    known: FileRecord,
    strip: Callable[[bytes], bytes] | None = None,
) -> str:
    """Give a file its old bytes, or remove it if there was none.

    A file that somebody changed after the lab did is not overwritten: ``strip`` takes only the lab's part
    out of it, and without ``strip`` it stays.

    Returns:
        What was done, in words.
    """
    path, hands = known.name, machine.hands(run)
    now = machine.data(path)
    before = b64decode(known.facts["before"].removeprefix("base64:")) if known.facts["before"] else None
    if now is None or now == before:
        said = f"{path} was as before"
    elif hashlib.sha256(now).hexdigest() != known.facts["written"]:
        if strip is None:
            journal.released("file", path)
            return f"{path} was changed by somebody else and stays"
        _install(hands, path, strip(now), f"{machine.path(path).stat().st_mode & 0o7777:04o}")
        said = f"{path}: the lab's part taken out, later changes kept"
    elif before is None:
        hands.run(["rm", "-f", path])
        said = f"{path} removed"
    else:
        _install(hands, path, before, known.facts["mode"])
        said = f"{path} restored"
    for directory in filter(None, known.facts["made"].split(":")):
        hands.run(["rmdir", "--ignore-fail-on-non-empty", directory], check=False)
    journal.released("file", path)
    return said


def _install(hands: Runner, path: str, content: bytes, mode: str) -> None:
    # By rename, so that the file is never half written; its directory may not exist yet.
    hands.run(["install", "-D", "-m", mode, "/dev/stdin", f"{path}.kailab"], stdin=content)
    hands.run(["mv", "-f", f"{path}.kailab", path])
