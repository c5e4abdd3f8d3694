"""``kailab down --host``: what it does is shown and approved, and nothing is undone that a lab needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import lab.cli.down
from lab.cli.down import app
from lab.engine.events import Bus
from lab.engine.journal import Journal
from lab.errors import HostNotReady, Interrupted, Leftovers
from lab.host.machine import Machine
from lab.operations import down as operation
from lab.operations.results import DownReport
from lab.paths import LabPaths, host_journal, host_lock, owner
from lab.steps.cluster import ownership
from lab.tools.lock import file_lock, lock_now
from tests.support.fakes import FakeRunner


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A machine with a change; has a line once the change is undone."""
    Journal(host_journal()).owns("sysctl", "net.ipv4.ip_forward", "sysctls", old="0", set="1")
    undone: list[bool] = []

    def undo_all(*_: object) -> list[str]:
        undone.append(True)
        return ["undone"]

    monkeypatch.setattr(operation, "undo_all", undo_all)
    return undone


def undo(runner: FakeRunner) -> tuple[str, ...]:
    session: Any = SimpleNamespace(runner=runner)
    return operation._undo_host(session)


def containers(runner: FakeRunner, engine: str, label: str, *facts: tuple[str, dict[str, str], Sequence[str]]) -> None:
    names = [name for name, *_ in facts]
    runner.handle(f"{engine} ps -aq --no-trunc --filter label={label}", out="\n".join(names))
    found = [
        {
            "Name": f"/{name}",
            "Id": name,
            "State": {"Status": "exited"},
            "Config": {"Labels": labels},
            "Mounts": [{"Destination": path} for path in mounts],
        }
        for name, labels, mounts in facts
    ]
    if names:
        runner.handle([engine, "inspect", "--type", "container", *names], out=json.dumps(found), exact=True)


KIND = "io.x-k8s.kind.cluster"


def node(lab: str, owner: str) -> tuple[str, dict[str, str], Sequence[str]]:
    labels = {KIND: f"kailab-{lab}", "kailab": ""}  # nodes inherit the empty label of their image
    return f"kailab-{lab}-control-plane", labels, [f"/etc/kailab/owner-{owner}"]


def test_labs_of_every_state_directory_and_engine_are_named(runner: FakeRunner, changed: list[bool]) -> None:
    for engine in ("docker", "podman"):
        runner.has(engine)
        runner.handle(f"{engine} version")
    theirs = ("own-control-plane", {KIND: "own"}, ())
    containers(runner, "docker", KIND, node("mine", owner()), node("other", "0123"), theirs)
    containers(runner, "docker", "kailab", ("kailab-bake-x", {"kailab": "baking"}, ()))
    containers(runner, "podman", KIND, node("pod", owner()))
    containers(runner, "podman", "kailab")
    with pytest.raises(Leftovers, match="labs need them") as caught:
        undo(runner)
    assert caught.value.evidence == (
        "lab baking: kailab-bake-x",
        "lab mine: kailab-mine-control-plane",
        "lab other, of another user or state directory: kailab-other-control-plane",
        "lab pod: kailab-pod-control-plane",
    )
    assert changed == []


def test_a_silent_docker_with_containers_may_have_labs(
    runner: FakeRunner, changed: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.has("docker")
    runner.handle("docker version", code=1)
    runner.handle("docker ps -a", code=1)
    runner.handle(["find", "/var/lib/docker/containers"], out="/var/lib/docker/containers/abc\n")
    runner.handle(["find", "/var/lib/docker/volumes"])
    monkeypatch.setattr(ownership, "Machine", lambda: Machine(euid=0))
    with pytest.raises(Leftovers) as caught:
        undo(runner)
    assert caught.value.evidence == ("docker does not answer and has container abc",)


def test_a_lab_that_another_process_changes_is_named(runner: FakeRunner, changed: list[bool]) -> None:
    LabPaths("busy").root.mkdir(parents=True)
    held = lock_now(LabPaths("busy").lock)
    assert held is not None
    with held, pytest.raises(Leftovers) as caught:
        undo(runner)
    assert caught.value.evidence == ("lab busy, which another kailab process is changing",)
    assert undo(runner) == ("undone",)


def test_nothing_is_undone_while_another_process_changes_the_machine(runner: FakeRunner, changed: list[bool]) -> None:
    runner.cancelled = True
    with file_lock(host_lock(), exclusive=True), pytest.raises(Interrupted):
        undo(runner)
    assert changed == []


def test_nothing_is_asked_when_nothing_changed(runner: FakeRunner) -> None:
    Journal(host_journal()).owns("image", "kindest/node:v1", "node-image")
    assert undo(runner) == ()


@pytest.mark.usefixtures("changed")
@pytest.mark.parametrize("answer", [True, False])
def test_the_prompt_names_what_is_undone(monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    asked: list[str] = []

    def confirm(question: str) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(lab.cli.down, "confirm", confirm)
    monkeypatch.setattr(lab.cli.down, "take_down", lambda name, **_: DownReport(name, 0.1, (), (), ()))
    done = CliRunner().invoke(app, ["--name", "demo", "--host"])
    assert asked == ["undo these changes of this machine?"]
    assert "set net.ipv4.ip_forward back to 0" in done.stderr
    assert isinstance(done.exception, HostNotReady) is not answer
    assert ("is removed" in done.stdout) is answer


def test_engine_that_does_not_answer_proves_nothing(runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is lost, so that only the engine knows whether the lab has containers."""
    runner.has("docker")
    runner.handle("docker version", code=1)
    runner.handle("docker ps -aq", code=1)
    monkeypatch.setattr("lab.session.session.HostRunner", lambda *_: runner)
    notices: list[str] = []
    bus = Bus()
    bus.subscribe(lambda event: notices.append(getattr(event, "text", "")))
    operation.down("demo", bus=bus)
    assert notices == ["docker does not answer: whether it has containers of lab 'demo' is not known"]


@pytest.mark.parametrize("has_nodes", ["docker", "podman"])
def test_lab_whose_state_cannot_be_read_is_removed_where_its_nodes_are(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch, has_nodes: str
) -> None:
    """Otherwise the nodes run on, and nobody knows of them."""
    LabPaths("demo").root.mkdir(parents=True)
    LabPaths("demo").spec.write_text("{")
    for engine in ("docker", "podman"):
        runner.has(engine)
    for engine in ("docker", "podman")[: 1 if has_nodes == "docker" else 2]:
        nodes = "0123\n" if engine == has_nodes else ""
        runner.handle(f"{engine} ps -aq --filter label={KIND}=kailab-demo", out=nodes, exact=True)
    monkeypatch.setattr("lab.session.session.HostRunner", lambda *_: runner)
    assert operation._session_for_down("demo").engine.name == has_nodes
