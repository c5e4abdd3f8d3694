"""Fix ``nvidia-runtime``: Docker's containers can request GPUs by mounts of /dev/null."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.engine.journal import Journal
from lab.errors import HostNotReady
from lab.host import daemon, docker_config, engines
from lab.host.docker_config import CONFIG, NVIDIA, WRAPPER
from lab.host.file_backup import EDIT, old_bytes, records, restore_file, unchanged, write_file
from lab.host.machine import Machine
from lab.host.nvidia.strategies import RUNTIME_FIX
from lab.host.nvidia.toml_edit import value_of, with_value
from lab.host.nvidia.toolkit import ACCEPT_MOUNTS, RUNTIME_TABLE
from lab.host.nvidia.toolkit import CONFIG as TOOLKIT_CONFIG
from lab.host.runtime import PLACE
from lab.tools.process import Runner

PATIENCE = 10.0
"""Seconds that Docker has to apply its new configuration."""


@dataclass(frozen=True)
class NvidiaRuntime:
    """Makes NVIDIA's runtime Docker's default, allows requests by mounts in it, and reloads Docker.

    kind cannot select a runtime or devices for its nodes (kubernetes-sigs/kind issue 3164), so the default runtime has
    to provide GPUs. It does not affect containers that request none. If ``kailab-runc`` is needed, NVIDIA's runtime
    calls it.
    """

    machine: Machine = field(default_factory=Machine)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    id: str = RUNTIME_FIX
    title: str = "let containers request NVIDIA GPUs from Docker"

    @property
    def commands(self) -> tuple[str, ...]:
        shown = self.machine.shown
        return (
            shown(f"edit {TOOLKIT_CONFIG}: {ACCEPT_MOUNTS} = true"),
            shown(f"edit {CONFIG}: runtimes.{NVIDIA}, default-runtime={NVIDIA}"),
            shown(f"{daemon.reload_command(self.machine)}  (containers keep running; restarted only if idle)"),
        )

    def apply(self, run: Runner, journal: Journal) -> None:
        program = run.which("nvidia-container-runtime")
        if program is None:
            raise HostNotReady(
                "nvidia-container-runtime is not installed",
                fix="install NVIDIA's container toolkit, or set gpu.strategy: explicit-mounts",
            )
        before = docker_config.read(self.machine)
        # A registration that the user made is kept.
        entry = (before.get("runtimes") or {}).get(NVIDIA) or {"path": str(program), "runtimeArgs": []}
        fix = "set gpu.strategy: explicit-mounts, which needs no change of the engine"
        config = docker_config.with_default(before, NVIDIA, entry, docker_config.REPLACED_BY_NVIDIA, fix)
        text = with_value(self.machine.text(TOOLKIT_CONFIG), "", ACCEPT_MOUNTS, value=True)
        if docker_config.default_runtime(before) == WRAPPER:
            others = value_of(text, RUNTIME_TABLE, "runtimes") or ["runc", "crun"]
            text = with_value(text, RUNTIME_TABLE, "runtimes", [PLACE, *(name for name in others if name != PLACE)])
        write_file(run, self.machine, journal, self.id, TOOLKIT_CONFIG, text.encode(), kind=EDIT)
        if before != config:
            write_file(run, self.machine, journal, self.id, CONFIG, docker_config.text(config), kind=EDIT)
        self._reload(run)

    def _reload(self, run: Runner) -> None:
        """Make a running daemon use the new default; restart it only if that is necessary and it runs no container."""
        found = engines.inspect("docker", run, self.machine)
        if not found.running or found.default_runtime == NVIDIA:
            return
        daemon.reload(run, self.machine)
        if self._applied(run):
            return
        running = run.run(["docker", "ps", "--format", "{{.Names}}"], check=False)
        busy = running.out.split()
        if self.machine.systemd and running.code == 0 and not busy:
            self.machine.as_root(run).run(["systemctl", "restart", "docker"])
            if self._applied(run):
                return
        raise HostNotReady(
            f"Docker did not apply its new default runtime {NVIDIA}",
            evidence=[f"running container {name}" for name in busy],
            fix="restart Docker (this stops running containers), then run the same command again",
        )

    def _applied(self, run: Runner) -> bool:
        start = self.clock()
        while engines.inspect("docker", run, self.machine).default_runtime != NVIDIA:
            if self.clock() - start > PATIENCE:
                return False
            self.sleep(0.2)
        return True

    def undo(self, run: Runner, journal: Journal) -> list[str]:
        config_change = next((one for one in records(journal, self.id, EDIT) if one.name == CONFIG), None)
        strips: dict[str, Callable[[bytes], bytes]] = {TOOLKIT_CONFIG: _disable_mounts}
        if config_change is not None:
            before = docker_config.parse(old_bytes(config_change))
            if NVIDIA not in (before.get("runtimes") or {}):  # a registration older than the lab is kept
                docker_config.require_unused(run, self.machine, NVIDIA, f"Docker's runtime {NVIDIA}")
            strips[CONFIG] = lambda data: _strip(data, before)
            if unchanged(self.machine, config_change) and daemon.pid(self.machine) is not None:
                # Docker keeps its default runtime if the file names none: set the old one explicitly first.
                interim = docker_config.without_nvidia(docker_config.read(self.machine), before)
                write_file(run, self.machine, journal, self.id, CONFIG, docker_config.text(interim), kind=EDIT)
                daemon.reload(run, self.machine)
        # daemon.json first: it must never name a runtime that is not configured
        changes = sorted(records(journal, self.id, EDIT), key=lambda change: change.name != CONFIG)
        done = [restore_file(run, self.machine, journal, change, strips[change.name]) for change in changes]
        if config_change is not None:
            daemon.reload(run, self.machine)
        return done


def _strip(data: bytes, before: Mapping[str, Any]) -> bytes:
    """A daemon.json that was changed later, without the lab's settings."""
    try:
        config = docker_config.parse(data)
    except HostNotReady:
        return data
    return docker_config.text(docker_config.without_nvidia(config, before))


def _disable_mounts(data: bytes) -> bytes:
    """A toolkit configuration that was changed later, with requests by mounts set to the toolkit's default."""
    try:
        return with_value(data.decode(), "", ACCEPT_MOUNTS, value=False).encode()
    except (HostNotReady, UnicodeDecodeError):
        return data
