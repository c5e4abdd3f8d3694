"""Access to this machine's files and root rights; tests set ``root`` to a directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.errors import CommandFailed, HostNotReady
from lab.tools.process import Result, Runner
from lab.tools.processes import command_line


@dataclass(frozen=True)
class Machine:
    """This machine.

    Args:
        root: prefix of all absolute paths that are read.
        euid: effective user id; other than 0, changes need ``sudo``.
        env: the environment.
        command_line: returns the arguments of a process; empty if it does not exist.
    """

    root: Path = Path("/")
    euid: int = field(default_factory=os.geteuid)
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    command_line: Callable[[int], list[str]] = command_line

    def path(self, absolute: str) -> Path:
        """An absolute path of the machine, below ``root``."""
        return self.root / absolute.lstrip("/")

    def text(self, absolute: str) -> str:
        """Text of a file; empty if it is missing or unreadable."""
        try:
            return self.path(absolute).read_text(errors="replace")
        except OSError:
            return ""

    def data(self, absolute: str) -> bytes | None:
        """Content of a file; None if it is missing. Raises HostNotReady if it is unreadable."""
        try:
            return self.path(absolute).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HostNotReady(f"{absolute} cannot be read: {error.strerror}", fix="run lab as root") from error

    def sysctl(self, name: str) -> int | None:
        """Value of a numeric kernel parameter, or None."""
        text = self.text(f"/proc/sys/{name.replace('.', '/')}").strip()
        return int(text) if text.lstrip("-").isdigit() else None

    @property
    def systemd(self) -> bool:
        """Whether systemd is the service manager (the same test as sd_booted(3))."""
        return self.path("/run/systemd/system").is_dir()

    def as_root(self, run: Runner) -> Runner:
        """A runner that runs commands as root."""
        return run if self.euid == 0 else _Sudo(run, self)

    def shown(self, command: str) -> str:
        """A command as the user has to type it."""
        return command if self.euid == 0 else f"sudo {command}"


class _Sudo:
    """Runs commands with ``sudo -n``, which never prompts for a password."""

    def __init__(self, run: Runner, machine: Machine) -> None:
        self._run = run
        self._machine = machine

    def which(self, name: str) -> Path | None:
        # sudo's secure_path includes /usr/sbin, which a user's PATH may lack
        sbin = Path("/usr/sbin") / name
        return self._run.which(name) or (sbin if self._machine.path(str(sbin)).is_file() else None)

    def stopped(self) -> bool:
        return self._run.stopped()

    def run(self, argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, **options: Any) -> Result:
        variables = ["env", *(f"{key}={value}" for key, value in env.items())] if env else []
        try:
            return self._run.run(["sudo", "-n", *variables, *argv], **options)
        except CommandFailed as error:
            if "password is required" in error.err or error.code == 127:
                raise HostNotReady(
                    "this change needs root, and sudo is missing or requires a password",
                    command=error.command,
                    fix="run 'sudo -v' in this terminal and then the same command again, or run it as root",
                ) from error
            raise
