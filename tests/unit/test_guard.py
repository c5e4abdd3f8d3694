"""The guard and the strict fakes on which all other tests rely."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess  # noqa: TID251 - must be refused
from collections.abc import Iterator
from pathlib import Path

import pytest
import sh  # noqa: TID251 - must be refused

from lab.errors import CommandFailed
from lab.paths import cache_root, state_root
from tests.support.fakes import Call, FakeRunner
from tests.support.guard import Guard


@pytest.fixture
def guard() -> Iterator[Guard]:
    """A second guard around the first, whose refusals do not fail the test."""
    with pytest.MonkeyPatch.context() as patch:
        guard = Guard(patch)
        guard.processes(())
        guard.sockets(loopback=False)
        yield guard


def test_processes_are_refused(guard: Guard) -> None:
    with pytest.raises(AssertionError, match="process echo"):
        subprocess.run(["echo"], check=False)
    with pytest.raises(AssertionError, match=r"process .*echo"):
        sh.Command("echo")()
    with pytest.raises(AssertionError, match=r"os\.system"):
        os.system("true")  # noqa: TID251 - must be refused
    with pytest.raises(AssertionError, match=r"os\.fork"):
        os.fork()
    with pytest.raises(AssertionError, match=r"os\.execv"):
        os.execvp("true", ["true"])
    assert len(guard.refused) == 5


def test_sockets_are_refused_but_asyncio_works(guard: Guard) -> None:
    with pytest.raises(AssertionError, match="getaddrinfo"):
        socket.create_connection(("localhost", 9))
    with socket.socket() as sock, pytest.raises(AssertionError, match="connect"):
        sock.connect(("127.0.0.1", 9))

    async def one() -> int:
        await asyncio.sleep(0)
        return 1

    assert asyncio.run(one()) == 1


@pytest.mark.loopback
def test_loopback_marker_allows_local_sockets_only() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()


@pytest.mark.processes("echo")
def test_processes_marker_allows_named_programs() -> None:
    assert str(sh.Command("echo")("hi")).strip() == "hi"


def test_state_and_cache_are_in_the_tests_directory(tmp_path: Path) -> None:
    assert state_root() == tmp_path / "state"
    assert cache_root() == tmp_path / "cache"


def test_unknown_command_is_named() -> None:
    fake = FakeRunner()
    fake.handle("docker ps")
    with pytest.raises(AssertionError, match=r"not declared: docker rm -f 'a b'\ndeclared:\n  docker ps"):
        fake.run(["docker", "rm", "-f", "a b"])
    assert fake.unmet() == ["declared but never run: docker ps", "run but not declared: docker rm -f 'a b'"]


def test_longest_prefix_wins_and_times_makes_a_sequence(runner: FakeRunner) -> None:
    runner.handle("kind get", "general")
    runner.handle("kind get clusters", "first", times=1)
    runner.handle("kind get clusters", "later")
    runner.handle(["kind", ..., "logs"], exact=True)
    outs = [runner.run(["kind", "get", word]).out for word in ("clusters", "clusters", "nodes", "clusters")]
    assert outs == ["first", "later", "general", "later"]
    runner.run(["kind", "export", "logs"])
    with pytest.raises(AssertionError):
        FakeRunner.run(FakeRunner(), ["kind", "export", "logs", "more"])


def test_failing_command_raises_as_the_real_runner_does(runner: FakeRunner) -> None:
    runner.handle("helm status", err="Error: release: not found\n", code=1)
    with pytest.raises(CommandFailed, match="release: not found"):
        runner.run(["helm", "status", "kai"])
    assert runner.run(["helm", "status", "kai"], check=False).code == 1


def test_answer_may_depend_on_the_call(runner: FakeRunner) -> None:
    def upper(call: Call) -> str:
        return str(call.stdin).upper()

    handler = runner.handle("cat", upper)
    lines: list[str] = []
    runner.run(["cat"], stdin="a\nb", on_line=lines.append, timeout=3)
    assert lines == ["A", "B"]
    assert handler.calls[0].timeout == 3


def test_unused_declarations_are_reported() -> None:
    fake = FakeRunner()
    fake.handle("true", times=2)
    fake.run(["true"])
    assert fake.unmet() == ["declared 1 times more than run: true"]


def test_which_finds_declared_programs_only(runner: FakeRunner) -> None:
    runner.has("docker")
    assert runner.which("docker") == Path("/usr/bin/docker")
    assert runner.which("podman") is None
