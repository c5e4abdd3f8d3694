"""Where the host room looks and how it acts as root; a test points ``root`` at a directory of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.errors import CommandFailed, HostNotReady
from lab.tools.process import OnLine, Result, Runner
from lab.tools.processes import command_line


@dataclass(frozen=True)
class Machine:
    """This machine.

    Args:
        root: stands before every absolute path that is read.
        euid: effective user id; other than 0, changes go through ``sudo``.
        env: the environment.
        command_line: asks for the arguments of a process; empty when there is none.
    """

    root: Path = Path("/")
    euid: int = field(default_factory=os.geteuid)
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    command_line: Callable[[int], list[str]] = command_line

    def path(self, absolute: str) -> Path:
        """An absolute path of the machine, below ``root``."""
        return self.root / absolute.lstrip("/")

    def text(self, absolute: str) -> str:
        """A file's text; empty when it is not there or may not be read."""
        try:
            return self.path(absolute).read_text(errors="replace")
        except OSError:
            return ""

    def data(self, absolute: str) -> bytes | None:
        """A file's bytes; None when it is not there.

        Raises:
            HostNotReady: the file is there and may not be read.
        """
        try:
            return self.path(absolute).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HostNotReady(f"{absolute} cannot be read: {error.strerror}", fix="run lab as root") from error

    def sysctl(self, name: str) -> int | None:
        """A kernel parameter that is a number, or None."""
        text = self.text(f"/proc/sys/{name.replace('.', '/')}").strip()
        return int(text) if text.lstrip("-").isdigit() else None

    @property
    def systemd(self) -> bool:
        """Whether systemd runs as service manager (sd_booted(3) looks at the same directory)."""
        return self.path("/run/systemd/system").is_dir()

    def hands(self, run: Runner) -> Runner:
        """A runner whose commands have root's rights."""
        return run if self.euid == 0 else _Sudo(run, self)

    def shown(self, command: str) -> str:
        """A command as a person would type it."""
        return command if self.euid == 0 else f"sudo {command}"


class _Sudo:
    """Puts ``sudo`` before every command; never waits for a password, because nobody could type it."""

    def __init__(self, run: Runner, machine: Machine) -> None:
        self._run = run
        self._machine = machine

    def which(self, name: str) -> Path | None:
        # sudo looks where a user's own PATH does not.
        sbin = Path("/usr/sbin") / name
        return self._run.which(name) or (sbin if self._machine.path(str(sbin)).is_file() else None)

    def stopped(self) -> bool:
        return self._run.stopped()

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float | None = None,
        check: bool = True,
        on_line: OnLine | None = None,
    ) -> Result:
        given = ["env", *(f"{key}={value}" for key, value in env.items())] if env else []
        try:
            return self._run.run(
                ["sudo", "-n", *given, *argv], stdin=stdin, cwd=cwd, timeout=timeout, check=check, on_line=on_line
            )
        except CommandFailed as error:
            if "password is required" in error.err or error.code == 127:
                raise HostNotReady(
                    "this change needs root, and sudo is missing or wants a password",
                    command=error.command,
                    fix="run 'sudo -v' in this terminal and the same command again, or run it as root",
                ) from error
            raise
