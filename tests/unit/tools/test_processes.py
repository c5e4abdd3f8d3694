"""Search for processes that name a path, and command lines of processes."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import psutil  # noqa: TID251 - to be replaced
import pytest

from lab.tools.processes import STARTED, Process, command_line, end_processes_naming, processes_naming

DEMO = Path("/state/demo")


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[str] | None]:
    """Command lines by process id; None for an unreadable one."""
    found: dict[int, list[str] | None] = {}

    def processes(_: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid, info={"cmdline": w}, environ=dict) for pid, w in found.items()]

    monkeypatch.setattr(psutil, "process_iter", processes)
    return found


@pytest.mark.parametrize(
    "argument",
    [
        "/state/demo",
        "/state/demo/kubeconfig",
        "--kubeconfig=/state/demo/kubeconfig",
        "/state/demo:/mnt",
        "cd '/state/demo' && ls",
    ],
)
def test_path_and_paths_below_it_match(running: dict[int, list[str] | None], argument: str) -> None:
    running.update({7: ["kubectl", argument, "x" * 200], 8: ["sh"], 9: None})
    assert processes_naming(DEMO) == [Process(7, f"kubectl {argument} {'x' * 200}"[:120], started=False)]


@pytest.mark.parametrize(
    "argument", ["/state/demo2", "/state/demo-2/kubeconfig", "/state/demo.old", "/other/state/demo", "demo"]
)
def test_other_paths_do_not_match(running: dict[int, list[str] | None], argument: str) -> None:
    running[7] = ["kubectl", argument]
    assert processes_naming(DEMO) == []


def test_this_process_and_its_parents_are_ignored(running: dict[int, list[str] | None]) -> None:
    running.update({os.getpid(): ["lab", "down", str(DEMO)], os.getppid(): ["uv", "run", "lab", "down", str(DEMO)]})
    assert processes_naming(DEMO) == []


@pytest.mark.parametrize(("environ", "started"), [({STARTED: "1"}, True), ({}, False), (psutil.AccessDenied(7), False)])
def test_processes_that_kailab_started(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str] | Exception, started: bool
) -> None:
    def read() -> dict[str, str]:
        if isinstance(environ, Exception):
            raise environ
        return environ

    process = SimpleNamespace(pid=7, info={"cmdline": ["helm", str(DEMO)]}, environ=read)
    monkeypatch.setattr(psutil, "process_iter", lambda _: [process])
    assert [found.started for found in processes_naming(DEMO)] == [started]


def test_command_line_of_missing_process_is_empty() -> None:
    assert command_line(os.getpid())
    assert command_line(2**22 + 1) == []  # above the largest pid_max that Linux allows


class Started:
    """A process that kailab started, with its children; ``deaf`` ignores SIGTERM."""

    def __init__(self, pid: int, ended: list[str], *children: Started, deaf: bool = False) -> None:
        self.pid, self.ended, self._children, self._deaf = pid, ended, children, deaf
        self.alive = True

    def children(self, *, recursive: bool) -> tuple[Started, ...]:
        return self._children

    def terminate(self) -> None:
        self.ended.append(f"terminate {self.pid}")
        self.alive = self._deaf

    def kill(self) -> None:
        self.ended.append(f"kill {self.pid}")
        self.alive = False


def test_started_processes_end_with_their_children(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    loop = Started(7, ended, Started(8, ended, deaf=True))
    found = [Process(7, "sh", started=True), Process(9, "vi", started=False)]
    monkeypatch.setattr("lab.tools.processes.processes_naming", lambda _: found)
    monkeypatch.setattr(psutil, "Process", {7: loop}.__getitem__)
    monkeypatch.setattr(psutil, "wait_procs", lambda some, _: ([], [one for one in some if one.alive]))
    end_processes_naming(DEMO)
    assert ended == ["terminate 7", "terminate 8", "kill 8"]
