"""The OCI runtime that leaves out capabilities the machine does not have: installing and registering it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.errors import HostNotReady, Leftovers
from lab.host import daemon
from lab.host.engine_checks import RUNTIME
from lab.host.file_backup import HostJournal, put_back, records, write_file
from lab.host.machine import Machine
from lab.tools.process import Runner

CONFIG = "/etc/docker/daemon.json"
PLACE = f"/usr/local/lib/kailab/{RUNTIME}"


@dataclass(frozen=True)
class RuntimeWrapper:
    """Registers ``kailab-runc`` as Docker's default runtime.

    Docker before 23.0 asks for every capability in privileged containers, and runc refuses those that the
    machine's bounding set lacks. A running daemon reads the change on SIGHUP: its containers go on.
    """

    machine: Machine = field(default_factory=Machine)
    id: str = "engine-runtime"
    title: str = "an OCI runtime that leaves out capabilities this machine does not have"

    @property
    def commands(self) -> tuple[str, ...]:
        shown = self.machine.shown
        return (
            shown(f"install -D -m 0755 {source()} {PLACE}"),
            shown(f"edit {CONFIG}: runtimes.{RUNTIME}.path={PLACE}, default-runtime={RUNTIME}"),
            shown(daemon.reload_command(self.machine)),
        )

    def apply(self, run: Runner, journal: HostJournal) -> None:
        """Install, register, and have a running daemon read it.

        Raises:
            HostNotReady: daemon.json is not JSON, or already names another default runtime.
            CommandFailed: a file cannot be written.
        """
        config = self._config()
        other = config.get("default-runtime", RUNTIME)
        if other not in (RUNTIME, "runc"):
            raise HostNotReady(
                f"{CONFIG} already makes {other} the default runtime, which the lab does not replace",
                fix=f"let {other} call {PLACE} instead of runc, or update Docker to 23.0 or newer",
            )
        config["default-runtime"] = RUNTIME
        config["runtimes"] = {**config.get("runtimes", {}), RUNTIME: {"path": PLACE}}
        text = f"{json.dumps(config, indent=2)}\n".encode()
        wrote = write_file(run, self.machine, journal, self.id, PLACE, source().read_bytes(), "0755")
        wrote = write_file(run, self.machine, journal, self.id, CONFIG, text, "0644") or wrote
        if wrote:
            daemon.reload(run, self.machine)

    def undo(self, run: Runner, journal: HostJournal) -> list[str]:
        """Restore both files.

        Raises:
            Leftovers: containers still use the runtime; they could not be started again without it.
        """
        mine = records(journal, self.id, "file")
        if not mine:
            return []
        if users := self._users(run):
            raise Leftovers(
                f"the runtime {RUNTIME} stays: containers were made with it",
                evidence=users,
                fix=f"docker rm -f -v {' '.join(users)}, then run the same command again",
            )
        if any(known.name == CONFIG for known in mine) and daemon.pid(self.machine) is not None:
            # A daemon that reads a file without default-runtime keeps the one it has: tell it runc first.
            config = {**json.loads(_without(self.machine.data(CONFIG) or b"{}")), "default-runtime": "runc"}
            text = f"{json.dumps(config, indent=2)}\n".encode()
            write_file(run, self.machine, journal, self.id, CONFIG, text, "0644")
            daemon.reload(run, self.machine)
        # daemon.json first: at no time may it name a program that is not there
        mine = sorted(records(journal, self.id, "file"), key=lambda known: known.name != CONFIG)
        return [
            put_back(run, self.machine, journal, known, _without if known.name == CONFIG else None) for known in mine
        ]

    def _config(self) -> dict[str, Any]:
        data = self.machine.data(CONFIG)
        try:
            config = json.loads(data) if data and data.strip() else {}
        except ValueError as error:
            raise HostNotReady(f"{CONFIG} is not JSON: {error}", fix=f"correct {CONFIG}") from error
        if not isinstance(config, dict):
            raise HostNotReady(f"{CONFIG} is not a JSON object", fix=f"correct {CONFIG}")
        return config

    def _users(self, run: Runner) -> list[str]:
        """Containers, running or not, that were made with the runtime."""
        if run.which("docker") is None:
            return []
        ids = run.run(["docker", "ps", "-aq"], check=False).out.split()
        if not ids:
            return []
        out = run.run(["docker", "inspect", "-f", "{{.HostConfig.Runtime}} {{.Name}}", *ids], check=False).out
        return [line.split()[1].lstrip("/") for line in out.splitlines() if line.startswith(f"{RUNTIME} ")]


def source() -> Path:
    """The wrapper as shipped."""
    return Path(__file__).parent / "files" / RUNTIME


def _without(data: bytes) -> bytes:
    """The same daemon.json without the lab's part."""
    try:
        config = json.loads(data)
    except ValueError:
        return data
    if config.get("default-runtime") == RUNTIME:
        del config["default-runtime"]
    config.get("runtimes", {}).pop(RUNTIME, None)
    if not config.get("runtimes", True):
        del config["runtimes"]
    return f"{json.dumps(config, indent=2)}\n".encode()
