"""Files of this machine that several fixes may change one after the other, each giving back what it found.

``restore.write_file`` keeps one record per file, of the first that changed it. Docker's configuration may already be
another fix's, so the records of these changes are kept under a kind of their own: the last change is taken back
first, and then the file is, byte for byte, what the earlier fix left.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode
from collections.abc import Sequence

from lab.host.file_backup import FileRecord, HostJournal
from lab.host.machine import Machine
from lab.tools.process import Runner

KIND = "edit"


class Edits:
    """The journal as ``write_file`` and ``put_back`` see it; what they call ``file`` is recorded as ``edit``."""

    def __init__(self, journal: HostJournal) -> None:
        self._journal = journal

    def owns(self, kind: str, name: str, step: str, **facts: str) -> None:
        self._journal.owns(KIND, name, step, **facts)

    def released(self, kind: str, name: str) -> None:
        self._journal.released(KIND, name)

    def owned(self, kind: str | None = None) -> Sequence[FileRecord]:
        return self._journal.owned(KIND)


def old_bytes(known: FileRecord) -> bytes | None:
    """What the file held before the change that ``known`` records; None where there was no file."""
    before = known.facts["before"]
    return b64decode(before.removeprefix("base64:")) if before else None


def unchanged(machine: Machine, known: FileRecord) -> bool:
    """Whether the file is as the lab wrote it last."""
    now = machine.data(known.name)
    return now is not None and hashlib.sha256(now).hexdigest() == known.facts["written"]


def users_of(run: Runner, runtime: str) -> list[str]:
    """Containers of Docker, running or not, that were made with an OCI runtime and cannot start without it."""
    if run.which("docker") is None:
        return []
    ids = run.run(["docker", "ps", "-aq"], check=False).out.split()
    if not ids:
        return []
    out = run.run(["docker", "inspect", "-f", "{{.HostConfig.Runtime}} {{.Name}}", *ids], check=False).out
    return [line.split()[1].lstrip("/") for line in out.splitlines() if line.startswith(f"{runtime} ")]
