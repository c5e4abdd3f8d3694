"""The guard that keeps unit tests away from the real machine."""

from __future__ import annotations

import os
import socket
import subprocess  # noqa: TID251 - to be closed
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import sh  # noqa: TID251 - to be closed

LOOPBACK = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "")


class Guard:
    """Refuses real processes and sockets; a refusal fails the test even when its code swallows the error."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.refused: list[str] = []

    def refuse(self, what: str) -> NoReturn:
        """Record the refusal and raise it."""
        self.refused.append(what)
        raise AssertionError(f"unit test reached for the real machine: {what}")

    def processes(self, allowed: tuple[str, ...]) -> None:
        """Refuse to start processes, except the named programs."""
        real_sh, real_popen = sh.Command.__call__, subprocess.Popen.__init__

        def check(program: object) -> None:
            name = Path(os.fsdecode(program if isinstance(program, str | bytes | os.PathLike) else str(program))).name
            if name not in allowed:
                self.refuse(f"process {program}")

        def call(command: Any, *args: Any, **options: Any) -> Any:
            check(command._path)
            return real_sh(command, *args, **options)

        def popen(process: Any, args: Any, *rest: Any, **options: Any) -> None:
            check(args if isinstance(args, str | bytes | os.PathLike) else args[0])
            real_popen(process, args, *rest, **options)

        self.patch.setattr(sh.Command, "__call__", call)
        self.patch.setattr(subprocess.Popen, "__init__", popen)
        closed = ["system"]
        if not allowed:  # subprocess uses fork, and posix_spawn since Python 3.13
            closed += ["fork", "forkpty", "execv", "execve", "posix_spawn", "posix_spawnp"]
        for name in closed:
            self.patch.setattr(os, name, self._closed(f"os.{name}"))

    def sockets(self, *, loopback: bool) -> None:
        """Refuse network access; pairs of connected sockets (asyncio creates one) stay possible."""
        for name in ("connect", "connect_ex", "bind", "sendto"):
            self.patch.setattr(socket.socket, name, self._gated(name, getattr(socket.socket, name), loopback))
        for name in ("getaddrinfo", "gethostbyname"):
            real = getattr(socket, name)

            def resolve(host: Any, *args: Any, real: Any = real, name: str = name, **options: Any) -> Any:
                if not loopback or str(host or "") not in LOOPBACK:
                    self.refuse(f"socket.{name}({host!r})")
                return real(host, *args, **options)

            self.patch.setattr(socket, name, resolve)

    def _gated(self, name: str, real: Callable[..., Any], loopback: bool) -> Callable[..., Any]:
        def method(sock: socket.socket, *args: Any) -> Any:
            address = args[-1]
            here = sock.family == socket.AF_UNIX or (isinstance(address, tuple) and address[0] in LOOPBACK)
            if not (loopback and here):
                self.refuse(f"socket.{name}({address!r})")
            return real(sock, *args)

        return method

    def _closed(self, name: str) -> Callable[..., NoReturn]:
        return lambda *args, **options: self.refuse(f"{name}{args!r}")
