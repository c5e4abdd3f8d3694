"""Container engine: removal is retried until the container is gone."""

from __future__ import annotations

import json

import pytest

from lab.errors import CommandFailed
from lab.tools.container import ContainerEngine
from tests.support.fakes import FakeRunner

NODE = json.dumps(
    [{"Name": "/node", "Id": "1", "State": {"Status": "running"}, "Config": {"Labels": {}}, "NetworkSettings": {}}]
)
BUSY = "could not kill: tried to kill container, but did not receive an exit event"


@pytest.fixture
def engine(runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> ContainerEngine:
    monkeypatch.setattr(ContainerEngine.remove.retry, "sleep", lambda seconds: None)
    return ContainerEngine(runner)


def test_removal_is_retried_while_engine_is_busy(engine: ContainerEngine, runner: FakeRunner) -> None:
    runner.handle("docker inspect --type container node", out=NODE)
    runner.handle("docker rm -f -v node", code=1, err=BUSY, times=1)
    runner.handle("docker rm -f -v node", out="node\n", times=1)
    engine.remove("node")
    assert runner.lines.count("docker rm -f -v node") == 2


def test_container_that_disappears_during_removal_is_success(engine: ContainerEngine, runner: FakeRunner) -> None:
    runner.handle("docker inspect --type container node", out=NODE, times=1)
    runner.handle("docker rm -f -v node", code=1, err=BUSY, times=1)
    runner.handle("docker inspect --type container node", code=1, times=1)
    engine.remove("node")


def test_removal_fails_once_retries_are_exhausted(
    engine: ContainerEngine, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ContainerEngine.remove.retry, "stop", lambda state: state.attempt_number >= 3)
    runner.handle("docker inspect --type container node", out=NODE)
    runner.handle("docker rm -f -v node", code=1, err=BUSY)
    with pytest.raises(CommandFailed, match="status 1"):
        engine.remove("node")
    assert runner.lines.count("docker rm -f -v node") == 3


def test_removing_no_containers_runs_no_command(engine: ContainerEngine, runner: FakeRunner) -> None:
    engine.remove()
    assert runner.lines == []
