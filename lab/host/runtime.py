"""Fix ``engine-runtime``: an OCI runtime that drops capabilities that the machine does not have."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lab.engine.journal import Journal
from lab.host import daemon, docker_config
from lab.host.docker_config import CONFIG, WRAPPER
from lab.host.file_backup import records, restore_file, write_file
from lab.host.machine import Machine
from lab.tools.process import Runner

PLACE = f"/usr/local/lib/kailab/{WRAPPER}"


@dataclass(frozen=True)
class RuntimeWrapper:
    """Registers ``kailab-runc`` as Docker's default runtime.

    Docker before 23.0 requests every capability for privileged containers, and runc rejects those that are not in the
    machine's bounding set. A running daemon reloads its configuration on SIGHUP; its containers keep running.
    """

    machine: Machine = field(default_factory=Machine)
    id: str = "engine-runtime"
    title: str = "register an OCI runtime that drops capabilities that this machine does not have"

    @property
    def commands(self) -> tuple[str, ...]:
        shown = self.machine.shown
        return (
            shown(f"install -D -m 0755 {source()} {PLACE}"),
            shown(f"edit {CONFIG}: runtimes.{WRAPPER}.path={PLACE}, default-runtime={WRAPPER}"),
            shown(daemon.reload_command(self.machine)),
        )

    def apply(self, run: Runner, journal: Journal) -> None:
        before = docker_config.read(self.machine)
        other = docker_config.default_runtime(before)
        fix = f"configure {other} to call {PLACE} instead of runc, or update Docker to 23.0 or newer"
        config = docker_config.with_default(before, WRAPPER, {"path": PLACE}, (WRAPPER, "runc"), fix)
        wrote = write_file(run, self.machine, journal, self.id, PLACE, source().read_bytes(), "0755")
        wrote = write_file(run, self.machine, journal, self.id, CONFIG, docker_config.text(config)) or wrote
        if wrote:
            daemon.reload(run, self.machine)

    def undo(self, run: Runner, journal: Journal) -> list[str]:
        changes = records(journal, self.id, "file")
        if not changes:
            return []
        docker_config.require_unused(run, self.machine, WRAPPER, f"the runtime {WRAPPER}")
        later = docker_config.without_wrapper(self.machine.data(CONFIG) or b"{}")
        if any(change.name == CONFIG for change in changes) and daemon.pid(self.machine) is not None:
            # A daemon that reloads a file without default-runtime keeps its current one: set runc explicitly first.
            text = docker_config.text({"default-runtime": "runc", **docker_config.parse(later)})
            write_file(run, self.machine, journal, self.id, CONFIG, text)
            daemon.reload(run, self.machine)
        # daemon.json first: it must never name a missing program
        return [
            restore_file(run, self.machine, journal, change, (lambda _: later) if change.name == CONFIG else None)
            for change in sorted(records(journal, self.id, "file"), key=lambda change: change.name != CONFIG)
        ]


def source() -> Path:
    """The runtime's shell script in this package."""
    return Path(__file__).parent / "files" / WRAPPER
