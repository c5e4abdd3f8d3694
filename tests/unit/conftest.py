"""Fixtures of the unit tests, and the guard that keeps them away from the real machine.

Markers that lift part of the guard:
    ``@pytest.mark.processes("echo", "sleep")``: these programs may really run.
    ``@pytest.mark.loopback``: sockets on 127.0.0.1, ::1 and Unix sockets may be used.
"""

from __future__ import annotations

import os
import socket
import subprocess  # noqa: TID251 - to be closed
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest
import sh  # noqa: TID251 - to be closed
from another_lab import AnotherLab
from fakes import FakeClock, FakeRunner
from kube_fake import FakeApi

from lab.kube import Cluster, follow, wait

Strict = TypeVar("Strict", FakeRunner, FakeApi)
LOOPBACK = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "")


def pytest_configure(config: pytest.Config) -> None:
    """Make the guard's markers known."""
    config.addinivalue_line("markers", "processes(*names): programs that this unit test may really run")
    config.addinivalue_line("markers", "loopback: this unit test may use sockets on this machine")


class Guard:
    """Refuses real processes and sockets; a refusal fails the test even when its code swallows the error."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.refused: list[str] = []

    def refuse(self, what: str) -> NoReturn:
        """Raise and remember."""
        self.refused.append(what)
        raise AssertionError(f"unit test reached for the real machine: {what}")

    def processes(self, allowed: tuple[str, ...]) -> None:
        """Close every way to start a process, except for the programs named."""
        real_sh, real_popen = sh.Command.__call__, subprocess.Popen.__init__

        def check(program: object) -> None:
            name = Path(
                os.fsdecode(program if isinstance(program, str | bytes | os.PathLike) else str(program))
            ).name
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
        closed = ["system", "posix_spawn", "posix_spawnp"]
        if not allowed:
            closed += ["fork", "forkpty", "execv", "execve"]
        for name in closed:
            self.patch.setattr(os, name, self._closed(f"os.{name}"))

    def sockets(self, *, loopback: bool) -> None:
        """Close the network; pairs of connected sockets (asyncio makes one for itself) stay possible."""
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


@pytest.fixture(autouse=True)
def _guard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """No real process, no socket, no state or cache outside the test's own directory."""
    # A MonkeyPatch of its own: a test that calls monkeypatch.undo() must not open the door.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAILAB_STATE", str(tmp_path / "state"))
        patch.setenv("KAILAB_CACHE", str(tmp_path / "cache"))
        guard = Guard(patch)
        marker = request.node.get_closest_marker("processes")
        guard.processes(marker.args if marker else ())
        guard.sockets(loopback=request.node.get_closest_marker("loopback") is not None)
        yield
    if guard.refused:
        pytest.fail("; ".join(guard.refused), pytrace=False)


def strictly(fake: Strict) -> Iterator[Strict]:
    """A fake for one test, which fails when it declared what was never asked for."""
    yield fake
    if unmet := fake.unmet():
        pytest.fail("\n".join(unmet), pytrace=False)


@pytest.fixture
def runner() -> Iterator[FakeRunner]:
    """A strict runner; the test fails when it declared a command that was never run."""
    yield from strictly(FakeRunner())


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still until advanced."""
    return FakeClock()


@pytest.fixture
def other() -> Iterator[AnotherLab]:
    """Another lab on this machine; what it makes is made when the test ends."""
    lab = AnotherLab()
    yield lab
    lab.ends()


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A strict API server; the test fails when it declared an answer that was never asked for."""
    yield from strictly(FakeApi())


@pytest.fixture
def pauses() -> list[float]:
    """What ``cluster`` would have waited between tries, in seconds."""
    return []


@pytest.fixture
def cluster(api: FakeApi, pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The cluster behind ``api``; it loses no time."""
    monkeypatch.setattr(follow, "PAUSE", 0.01)
    monkeypatch.setattr(wait, "FIRST_LIST", 0.3)
    made = Cluster(Path("/lab/kubeconfig"), "kind-kailab-demo", transport=api)
    monkeypatch.setattr(made.calls, "pause", pauses.append)
    return made
