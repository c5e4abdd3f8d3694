"""Container engine: removal is retried until the container is gone, freezing until all containers are frozen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.errors import CommandFailed
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from tests.support.fakes import Call, FakeRunner

NODE = json.dumps(
    [{"Name": "/node", "Id": "1", "State": {"Status": "running"}, "Config": {"Labels": {}}, "NetworkSettings": {}}]
)
BUSY = "could not kill: tried to kill container, but did not receive an exit event"
FROZEN = "Cannot pause container: OCI runtime pause failed: unable to freeze: unknown"


@pytest.fixture
def engine(runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> ContainerEngine:
    for method in (ContainerEngine.remove, ContainerEngine.pause):
        monkeypatch.setattr(method.retry, "sleep", lambda seconds: None)
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
    runner.handle("docker inspect --type container node", code=1, err="Error: No such container: node", times=1)
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


def test_removal_that_is_refused_is_not_retried(engine: ContainerEngine, runner: FakeRunner) -> None:
    runner.handle("docker inspect --type container node", out=NODE)
    refused = "unable to remove filesystem for 1f0c: unlinkat hostname: operation not permitted"
    runner.handle("docker rm -f -v node", code=1, err=refused)
    with pytest.raises(CommandFailed, match="status 1"):
        engine.remove("node")
    assert runner.lines.count("docker rm -f -v node") == 1


def test_removing_no_containers_runs_no_command(engine: ContainerEngine, runner: FakeRunner) -> None:
    engine.remove()
    assert runner.lines == []


@pytest.mark.parametrize(
    ("path", "option"),
    [
        ("/mnt/12:30", "type=bind,source=/mnt/12:30,target=/mnt/12:30,readonly"),
        ('/a,b "c"', 'type=bind,"source=/a,b ""c""","target=/a,b ""c""",readonly'),
    ],
)
def test_mounted_path_may_have_any_character(engine: ContainerEngine, path: str, option: str) -> None:
    assert engine.read_only_mount(path) == ("--mount", option)


def test_freezing_is_all_or_nothing_and_retried(engine: ContainerEngine, runner: FakeRunner) -> None:
    states = {"c1": "running", "c2": "running"}
    runner.containers(lambda name: facts(name, states[name]))
    runner.handle("docker pause c1 c2", out=lambda _: states.update(c1="paused") or "", code=1, err=FROZEN, times=1)
    runner.handle("docker unpause c1", out=lambda _: states.update(c1="running") or "", times=1)
    runner.handle("docker pause c1 c2", times=1)
    engine.pause("c1", "c2")
    asked = [line for line in runner.lines if "inspect" not in line]
    assert asked == ["docker pause c1 c2", "docker unpause c1", "docker pause c1 c2"]


def test_nothing_stays_frozen_once_retries_are_exhausted(
    engine: ContainerEngine, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ContainerEngine.pause.retry, "stop", lambda state: state.attempt_number >= 2)
    states = {"c1": "running", "c2": "running"}
    runner.containers(lambda name: facts(name, states[name]))
    runner.handle("docker pause c1 c2", out=lambda _: states.update(c1="paused") or "", code=1, err=FROZEN, times=2)
    runner.handle("docker unpause c1", out=lambda _: states.update(c1="running") or "", times=2)
    with pytest.raises(CommandFailed, match="status 1"):
        engine.pause("c1", "c2")
    assert states == {"c1": "running", "c2": "running"}


def facts(name: str, state: str = "running") -> dict[str, object]:
    return {"Name": f"/{name}", "Id": name, "State": {"Status": state}, "Config": {}}


def test_containers_are_inspected_in_one_call(engine: ContainerEngine, runner: FakeRunner) -> None:
    runner.handle("docker ps -aq", out="c2 c1")
    runner.containers(facts)
    assert [one.name for one in engine.containers("label")] == ["c1", "c2"]
    assert runner.lines == ["docker ps -aq --no-trunc --filter label=label", "docker inspect --type container c2 c1"]


def test_containers_are_listed_once_while_nothing_changes_them(engine: ContainerEngine, runner: FakeRunner) -> None:
    runner.handle("docker ps -aq", out="c1")
    runner.containers(facts)
    with engine.reading():
        assert engine.containers("label") == engine.containers("label")
        assert len(runner.lines) == 2
    engine.containers("label")
    assert len(runner.lines) == 4


def test_file_is_read_once_while_nothing_changes(engine: ContainerEngine, runner: FakeRunner) -> None:
    runner.handle("docker exec n cat /file", out="text")
    runner.handle("docker exec n cat /gone", out="", code=1)
    with engine.reading():
        assert [engine.read_file("n", path, timeout=1) for path in ("/file", "/gone", "/file", "/gone")] == [
            "text",
            "",
        ] * 2
    assert len(runner.lines) == 2
    engine.read_file("n", "/file", timeout=1)
    assert len(runner.lines) == 3


def test_failure_of_a_read_reaches_everybody_who_asked(engine: ContainerEngine, runner: FakeRunner) -> None:
    runner.handle("docker ps -aq", code=1, err="Cannot connect to the Docker daemon")
    with engine.reading():
        for _ in range(2):
            with pytest.raises(CommandFailed, match="docker ps"):
                engine.containers("label")
    assert len(runner.lines) == 1


def test_container_that_is_gone_meanwhile_is_omitted(engine: ContainerEngine, runner: FakeRunner) -> None:
    runner.handle("docker ps -aq", out="c2 c1")
    runner.containers(facts)
    runner.handle(
        "docker inspect --type container c2", out="[]", err="Error response from daemon: No such container: c2", code=1
    )
    assert [one.name for one in engine.containers("label")] == ["c1"]


@pytest.mark.parametrize(
    ("out", "code", "found", "calls"),
    [("id-a id-b", 0, {"a": "id-a", "b": "id-b"}, 1), ("", 1, {}, 1), ("id-b", 1, {"b": "id-b"}, 3)],
)
def test_local_images_are_looked_up_in_one_call(
    engine: ContainerEngine, runner: FakeRunner, out: str, code: int, found: dict[str, str], calls: int
) -> None:
    runner.handle("docker image inspect --format {{.Id}} a b", out=out, code=code)
    if calls > 1:
        runner.handle("docker image inspect --format {{.Id}} a", code=1, exact=True)
        runner.handle("docker image inspect --format {{.Id}} b", out="id-b", exact=True)
    assert engine.image_ids(["a", "b"]) == found
    assert len(runner.lines) == calls


@pytest.mark.processes("sh")
def test_file_is_written_whatever_its_name(runner: FakeRunner, tmp_path: Path) -> None:
    """With the real script in a real shell."""
    name = f"a b; touch {tmp_path}/pwned #$(touch {tmp_path}/pwned)'\"/hosts.toml"

    def shell(call: Call) -> str:
        return HostRunner().run(call.argv[4:], stdin=call.stdin).out

    runner.handle(["docker", "exec", "-i", "node"], out=shell)
    ContainerEngine(runner).write_file("node", f"{tmp_path}/new/{name}", "text\n", "0750")
    file = tmp_path / "new" / name
    assert file.read_text() == "text\n"
    assert file.stat().st_mode & 0o777 == 0o750
    assert not (tmp_path / "pwned").exists()
    assert [path.name for path in file.parent.iterdir()] == [file.name]


GONE = (
    ("network", "Error: No such network: x"),
    ("network", "Error response from daemon: network x not found"),
    ("network", "Error: unable to find network with name or ID x: network not found"),
    ("volume", "Error: No such volume: x"),
    ("volume", "Error response from daemon: get x: no such volume"),
    ("network", 'time="…" level=error msg="no network found matching: x"'),
    ("network", 'time="…" level=fatal msg="unable to find any network matching the provided request"'),
)
"""Of docker 20.10 and newer, podman, and nerdctl; those of podman and nerdctl are quoted by others, not seen."""


@pytest.mark.parametrize(("kind", "message"), GONE)
def test_object_that_the_engine_does_not_know_is_gone(
    engine: ContainerEngine, runner: FakeRunner, kind: str, message: str
) -> None:
    runner.handle(f"docker {kind} inspect x", code=1, err=message)
    assert not engine.exists(kind, "x")


@pytest.mark.parametrize(
    "silent",
    [
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
        "dial unix /run/podman/podman.sock: connect: no such file or directory",
    ],
)
def test_silent_engine_proves_nothing(engine: ContainerEngine, runner: FakeRunner, silent: str) -> None:
    for words in ("network inspect x", "inspect --type container x"):
        runner.handle(f"docker {words}", code=1, err=silent)
    with pytest.raises(CommandFailed):
        engine.exists("network", "x")
    with pytest.raises(CommandFailed):
        engine.inspect("x")


AMBIGUOUS = "Error response from daemon: 2 matches found based on name: network kind is ambiguous"


def test_networks_of_one_name_exist_and_are_all_removed(engine: ContainerEngine, runner: FakeRunner) -> None:
    for words in ("network inspect kind", "network rm kind"):
        runner.handle(f"docker {words}", code=1, err=AMBIGUOUS)
    runner.handle("docker network ls --quiet --filter name=^kind$", out="306e\n0985\n")
    runner.handle("docker network rm 306e 0985")
    assert engine.exists("network", "kind")
    engine.discard("network", "kind")
    assert "docker network rm 306e 0985" in runner.lines
