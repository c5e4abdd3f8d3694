"""Fix ``nvidia-runtime``: Docker's containers may ask for GPUs by mounts of /dev/null."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.errors import HostNotReady, Leftovers
from lab.host import daemon, engines
from lab.host.engine_checks import RUNTIME as WRAPPER
from lab.host.file_backup import HostJournal, put_back, records, write_file
from lab.host.machine import Machine
from lab.host.nvidia import engine_config
from lab.host.nvidia.engine_config import CONFIG, RUNTIME
from lab.host.nvidia.file_journal import Edits, old_bytes, unchanged, users_of
from lab.host.nvidia.strategies import RUNTIME_FIX
from lab.host.nvidia.toml_edit import value_of, with_value
from lab.host.nvidia.toolkit import ACCEPT_MOUNTS, RUNTIME_TABLE
from lab.host.nvidia.toolkit import CONFIG as TOOLKIT_CONFIG
from lab.host.runtime import PLACE
from lab.tools.process import Runner

PATIENCE = 10.0
"""Seconds that Docker has to take its configuration over."""


@dataclass(frozen=True)
class NvidiaRuntime:
    """Makes NVIDIA's runtime Docker's default, lets it accept requests by mounts, and has Docker read that.

    kind cannot name a runtime or a device for its nodes (kubernetes-sigs/kind issue 3164), so the default runtime has
    to be the one that hands GPUs out. It leaves containers alone that ask for none. Where ``kailab-runc`` is needed,
    NVIDIA's runtime hands over to it.
    """

    machine: Machine = field(default_factory=Machine)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    id: str = RUNTIME_FIX
    title: str = "let containers ask Docker for NVIDIA GPUs"

    @property
    def commands(self) -> tuple[str, ...]:
        shown = self.machine.shown
        return (
            shown(f"edit {TOOLKIT_CONFIG}: {ACCEPT_MOUNTS} = true"),
            shown(f"edit {CONFIG}: runtimes.{RUNTIME}, default-runtime={RUNTIME}"),
            shown(f"{daemon.reload_command(self.machine)}  (containers go on; a restart only if Docker asks for one)"),
        )

    def apply(self, run: Runner, journal: HostJournal) -> None:
        """Write both files and have a running daemon read its own.

        Raises:
            HostNotReady: a file cannot be extended, the toolkit is not installed, or Docker goes on as before.
            CommandFailed: a file cannot be written.
        """
        program = run.which("nvidia-container-runtime")
        if program is None:
            raise HostNotReady(
                "nvidia-container-runtime is not installed",
                fix="install NVIDIA's container toolkit, or set gpu.strategy: explicit-mounts",
            )
        before = engine_config.read(self.machine)
        config = engine_config.with_nvidia(before, str(program))
        text = with_value(self.machine.text(TOOLKIT_CONFIG), "", ACCEPT_MOUNTS, value=True)
        if engine_config.default_of(before) == WRAPPER:
            others = value_of(text, RUNTIME_TABLE, "runtimes") or ["runc", "crun"]
            text = with_value(text, RUNTIME_TABLE, "runtimes", [PLACE, *(name for name in others if name != PLACE)])
        edits = Edits(journal)
        write_file(run, self.machine, edits, self.id, TOOLKIT_CONFIG, text.encode(), "0644")
        if before != config:
            write_file(run, self.machine, edits, self.id, CONFIG, engine_config.text(config), "0644")
        self._take_over(run)

    def _take_over(self, run: Runner) -> None:
        """Have a running daemon use the new default; restart it only where it must be and nothing runs in it."""
        found = engines.look("docker", run, self.machine)
        if not found.running or found.default_runtime == RUNTIME:
            return
        daemon.reload(run, self.machine)
        if self._settled(run):
            return
        busy = run.run(["docker", "ps", "--format", "{{.Names}}"], check=False).out.split()
        if self.machine.systemd and not busy:
            self.machine.hands(run).run(["systemctl", "restart", "docker"])
            if self._settled(run):
                return
        raise HostNotReady(
            f"Docker was told of its new default runtime {RUNTIME} and goes on with another",
            evidence=[f"running container {name}" for name in busy],
            fix="restart Docker (this stops running containers), then run the same command again",
        )

    def _settled(self, run: Runner) -> bool:
        start = self.clock()
        while engines.look("docker", run, self.machine).default_runtime != RUNTIME:
            if self.clock() - start > PATIENCE:
                return False
            self.sleep(0.2)
        return True

    def undo(self, run: Runner, journal: HostJournal) -> list[str]:
        """Restore both files.

        Raises:
            Leftovers: containers were made with the runtime; they could not be started again without it.
        """
        edits = Edits(journal)
        ours = next((known for known in records(edits, self.id) if known.name == CONFIG), None)
        strips: dict[str, Callable[[bytes], bytes]] = {TOOLKIT_CONFIG: _refuse_mounts}
        if ours is not None:
            before = engine_config.parse(old_bytes(ours))
            # a registration that was there before the lab came keeps working for its containers
            known_before = RUNTIME in (before.get("runtimes") or {})
            if not known_before and (users := users_of(run, RUNTIME)):
                raise Leftovers(
                    f"Docker's runtime {RUNTIME} stays: containers were made with it",
                    evidence=users,
                    fix=f"docker rm -f -v {' '.join(users)}, then run the same command again",
                )
            strips[CONFIG] = lambda data: _strip(data, before)
            if unchanged(self.machine, ours) and daemon.pid(self.machine) is not None:
                # It keeps its default runtime when the file names none: have it leave nvidia by name first.
                interim = engine_config.as_before(engine_config.read(self.machine), before)
                write_file(run, self.machine, edits, self.id, CONFIG, engine_config.text(interim), "0644")
                daemon.reload(run, self.machine)
        # Docker's first: at no time may it name a runtime that is not set up
        mine = sorted(records(edits, self.id), key=lambda known: known.name != CONFIG)
        said = [put_back(run, self.machine, edits, known, strips[known.name]) for known in mine]
        if ours is not None:
            daemon.reload(run, self.machine)
        return said


def _strip(data: bytes, before: Mapping[str, Any]) -> bytes:
    """Docker's configuration, as somebody changed it since, without the lab's part."""
    try:
        config = engine_config.parse(data)
    except HostNotReady:
        return data
    return engine_config.text(engine_config.as_before(config, before))


def _refuse_mounts(data: bytes) -> bytes:
    """The toolkit's configuration, as somebody changed it since, with its own default back in force."""
    try:
        return with_value(data.decode(), "", ACCEPT_MOUNTS, value=False).encode()
    except (HostNotReady, UnicodeDecodeError):
        return data
