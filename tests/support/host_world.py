"""A machine made of files in a directory, with fake commands that change those files as the real ones would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab.host.machine import Machine
from tests.support.fakes import Call, FakeRunner

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n'

DOCKER_INFO: dict[str, Any] = {
    "ServerVersion": "20.10.24+dfsg1",
    "Driver": "overlay2",
    "CgroupDriver": "cgroupfs",
    "CgroupVersion": "1",
    "DefaultRuntime": "runc",
    "DockerRootDir": "/var/lib/docker",
    "SecurityOptions": ["name=seccomp,profile=default"],
}
"""Part of what Docker 20.10 on Debian 12 answers to ``docker info --format '{{json .}}'``."""


class HostWorld:
    """A Debian 12 without systemd and without Docker; ``put`` adds files."""

    def __init__(self, root: Path, runner: FakeRunner, *, euid: int = 0) -> None:
        self.root = root
        self.runner = runner
        self.command_lines: dict[int, list[str]] = {}
        self.machine = Machine(root, euid, {"HOME": "/root"}, lambda pid: self.command_lines.get(pid, []))
        self.put("/etc/os-release", DEBIAN)
        self.put("/usr/share/keyrings/debian-archive-keyring.gpg", "the keys")

    def put(self, path: str, text: str | bytes, mode: int = 0o644) -> Path:
        """Create a file."""
        file = self.machine.path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        file.chmod(mode)
        return file

    def sysctl(self, name: str, value: int) -> None:
        """Set a kernel parameter."""
        self.put(f"/proc/sys/{name.replace('.', '/')}", f"{value}\n")

    def files(self) -> dict[str, tuple[bytes, int]]:
        """Return every file with its bytes and mode."""
        found = sorted(path for path in self.root.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): (path.read_bytes(), path.stat().st_mode & 0o7777) for path in found}

    def directories(self) -> set[str]:
        """Return every directory."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_dir()}

    def obey_files(self, *, removing: bool = True) -> None:
        """Declare install and mv, and with ``removing`` also rm and rmdir."""
        self.runner.handle(["install", "-D", "-m"], out=self._install)
        self.runner.handle(["mv", "-f"], out=self._move)
        if removing:
            self.runner.handle(["rm", "-f"], out=self._remove)
            self.runner.handle(["rmdir", "--ignore-fail-on-non-empty"], out=self._rmdir)

    def obey_sysctl(self) -> None:
        """Declare sysctl -w."""

        def write(call: Call) -> str:
            name, _, value = call.argv[-1].partition("=")
            self.sysctl(name, int(value))
            return ""

        self.runner.handle(["sysctl", "-w"], out=write)

    def docker_runs(self, number: int = 4711, *args: str) -> None:
        """Add a process dockerd."""
        self.put("/run/docker.pid", f"{number}\n")
        self.command_lines[number] = ["dockerd", *args]

    def docker_info(self, **changes: Any) -> str:
        """Return the answer of ``docker info``, with changes."""
        return json.dumps({**DOCKER_INFO, **changes})

    def _install(self, call: Call) -> str:
        assert call.argv[4] == "/dev/stdin"
        assert isinstance(call.stdin, bytes)
        self.put(call.argv[5], call.stdin, int(call.argv[3], 8))
        return ""

    def _move(self, call: Call) -> str:
        self.machine.path(call.argv[2]).rename(self.machine.path(call.argv[3]))
        return ""

    def _remove(self, call: Call) -> str:
        for path in call.argv[2:]:
            self.machine.path(path).unlink(missing_ok=True)
        return ""

    def _rmdir(self, call: Call) -> str:
        path = self.machine.path(call.argv[2])
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
        return ""
