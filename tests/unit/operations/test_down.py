"""``kailab down --host``: what it does is shown and approved, and nothing is undone that a lab needs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import lab.cli.down
from lab.cli.down import app
from lab.engine.events import Bus
from lab.engine.journal import Journal
from lab.errors import HostNotReady, Interrupted, LabError, Leftovers, NoLab, SpecError
from lab.gpu.pools import SIMULATED_LABEL
from lab.host.machine import Machine
from lab.operations import down as operation
from lab.operations.results import DownReport
from lab.paths import LabPaths, host_journal, host_lock, owner
from lab.session.session import Session
from lab.steps.cluster import existing, ownership
from lab.steps.cluster.existing import CLAIM
from lab.tools.lock import file_lock, lock_now
from lab.workloads.temporary import PROCESS_LABEL, lab_lock_file
from tests.support.fake_api_server import FakeApiServer
from tests.support.fakes import FakeRunner
from tests.support.kai_install import add_kai_of_others
from tests.support.specs import EXISTING, lab_spec


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
    monkeypatch.setattr(lab.cli.down, "take_down", lambda name, **_: DownReport(name, 0.1, (), (), (), ()))
    done = CliRunner().invoke(app, ["--name", "demo", "--host"])
    assert asked == ["undo these changes of this machine?"]
    assert "set net.ipv4.ip_forward back to 0" in done.stderr
    assert isinstance(done.exception, HostNotReady) is not answer
    assert ("is removed" in done.stdout) is answer


# --- a lab in an existing cluster

MINE = {"labels": {"kailab": "demo"}}


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> FakeApiServer:
    """A cluster with a KAI of others, and a lab with a queue that uses it."""
    api = FakeApiServer()
    api.put("Namespace", "kube-system", metadata={"uid": "one"})
    add_kai_of_others(api, "0.16.8")
    api.put("Queue", "theirs")
    api.put("Queue", "mine", metadata=MINE)
    spec = lab_spec(cluster=EXISTING, scheduler="kai", kai={"manage": "adopt"})
    session = Session(spec, spec, engine_runs=False)
    session.save()
    session.paths.kubeconfig.write_text("copy")
    session.journal.owns(CLAIM, api.server, "cluster", server=api.server, uid="one")
    monkeypatch.setattr(Session, "cluster", lambda *_: api.cluster)
    return api


def test_only_objects_of_the_lab_are_removed(theirs: FakeApiServer) -> None:
    """Without any container engine: the guard refuses processes."""
    before = {key for key in theirs.objects if key != ("Queue", "", "mine")}
    report = operation.down("demo")
    assert (report.left, report.kept) == ((), ())
    assert set(theirs.objects) == before
    assert [line for line in theirs.log if line.startswith("delete Q")] == ["delete Queue mine"]
    assert not LabPaths("demo").root.exists()


@pytest.fixture
def cordoned(theirs: FakeApiServer, monkeypatch: pytest.MonkeyPatch) -> FakeApiServer:
    """A test that was killed after it had cordoned a node."""
    theirs.put("Node", "a", spec={"unschedulable": True})
    undo = json.dumps({"spec": {"unschedulable": None}})
    record = Journal(LabPaths("demo").root / "processes" / "box-17-aaaaaa.jsonl")
    facts = {"kubeconfig": str(LabPaths("demo").kubeconfig), "target": json.dumps(["Node", "a", None]), "patch": undo}
    record.owns("change", "1", "Node a is changed", **facts)
    monkeypatch.setattr("lab.operations.abandoned_removal.Cluster", lambda _: theirs.cluster)
    return theirs


def test_change_of_a_killed_test_is_undone_in_a_cluster_of_others(cordoned: FakeApiServer) -> None:
    assert operation.down("demo").left == ()
    assert (cordoned.get("Node", "a") or {})["spec"] == {}
    assert not LabPaths("demo").root.exists()


def test_change_of_a_killed_test_that_stays_keeps_the_state(cordoned: FakeApiServer) -> None:
    cordoned.fail("patch", "Node", (403, "forbidden"))
    with pytest.raises(Leftovers) as caught:
        operation.down("demo")
    assert any("Node a is changed: left by" in line for line in caught.value.evidence)
    assert LabPaths("demo").journal.exists()


def test_change_of_a_killed_test_stays_known_while_another_test_runs(cordoned: FakeApiServer) -> None:
    with file_lock(lab_lock_file(LabPaths("demo")), exclusive=True), pytest.raises(Leftovers) as caught:
        operation.down("demo")
    assert any("Node a is changed: left by" in line for line in caught.value.evidence)
    assert (cordoned.get("Node", "a") or {})["spec"] == {"unschedulable": True}


def test_objects_that_remain_keep_the_state(theirs: FakeApiServer) -> None:
    theirs.put("ConfigMap", "forgotten", "default", metadata=MINE)
    with pytest.raises(Leftovers) as caught:
        operation.down("demo")
    assert any("ConfigMap default/forgotten" in line for line in caught.value.evidence)
    assert LabPaths("demo").journal.exists()


def test_nothing_is_removed_from_another_cluster(theirs: FakeApiServer) -> None:
    theirs.put("Namespace", "kube-system", metadata={"uid": "two"})
    with pytest.raises(LabError, match="leads to another cluster"):
        operation.down("demo")
    assert theirs.log == []
    assert LabPaths("demo").journal.exists()


def test_cluster_that_does_not_answer_keeps_the_state(theirs: FakeApiServer) -> None:
    theirs.alive = False
    with pytest.raises(LabError):
        operation.down("demo")
    assert LabPaths("demo").journal.exists()


def test_unreadable_state_of_such_a_lab_is_not_deleted(theirs: FakeApiServer) -> None:
    LabPaths("demo").spec.write_text("{")
    with pytest.raises(LabError, match="cannot be read"):
        operation.down("demo")
    assert LabPaths("demo").journal.exists()


def test_lab_that_got_no_cluster_is_removed(theirs: FakeApiServer) -> None:
    LabPaths("demo").kubeconfig.unlink()
    operation.down("demo")
    assert theirs.log == []
    assert not LabPaths("demo").root.exists()


@pytest.fixture
def lost(theirs: FakeApiServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, str]:
    """Kubeconfig and context of the cluster, whose lab has lost its state directory."""
    shutil.rmtree(LabPaths("demo").root)
    for module in (operation, existing):
        monkeypatch.setattr(module, "connect", lambda spec: theirs.cluster)
    file = tmp_path / "config"
    clusters = [{"name": "x", "cluster": {"server": theirs.server}}]
    contexts = [{"name": "c", "context": {"cluster": "x"}}]
    file.write_text(yaml.safe_dump({"clusters": clusters, "contexts": contexts}))
    return file, "c"


def test_lab_without_its_state_is_removed_by_its_labels(theirs: FakeApiServer, lost: tuple[Path, str]) -> None:
    theirs.put("CustomResourceDefinition", "queues.scheduling.run.ai")
    theirs.put("Namespace", "t-killed", metadata={"labels": {"kailab": "demo", PROCESS_LABEL: "gone"}})
    theirs.put("ConfigMap", "other", "default", metadata={"labels": {"kailab": "other"}})
    report = operation.down("demo", at=lost)
    assert report.left == ()
    deleted = [line for line in theirs.log if line.startswith("delete ") and " all " not in line]
    assert sorted(deleted) == ["delete Namespace t-killed", "delete Queue mine"]
    assert theirs.get("Queue", "theirs") is not None
    assert not LabPaths("demo").root.exists()


def test_simulated_gpus_of_a_lost_lab_are_taken_from_their_nodes(theirs: FakeApiServer, lost: tuple[Path, str]) -> None:
    theirs.put("CustomResourceDefinition", "queues.scheduling.run.ai")
    gpus = {"capacity": {"nvidia.com/gpu": "2"}, "allocatable": {"nvidia.com/gpu": "2"}}
    theirs.put("Node", "a", metadata={"labels": {SIMULATED_LABEL: "demo", "kailab": "demo"}}, status=gpus)
    assert operation.down("demo", at=lost).left == ()
    found = theirs.get("Node", "a") or {}
    assert (found["metadata"]["labels"], found["status"]) == ({}, {"capacity": {}, "allocatable": {}})


def test_kai_in_which_others_have_queues_stays_though_it_has_the_label(
    theirs: FakeApiServer, lost: tuple[Path, str]
) -> None:
    """The step refuses; a deletion by the label would take the queues of others with the CRD."""
    theirs.put("Namespace", "kai-scheduler", metadata=MINE)
    theirs.put("CustomResourceDefinition", "queues.scheduling.run.ai", metadata=MINE)
    with pytest.raises(Leftovers) as caught:
        operation.down("demo", at=lost)
    assert any("KAI is not removed" in line for line in caught.value.evidence)
    assert theirs.get("Namespace", "kai-scheduler") is not None
    assert theirs.get("CustomResourceDefinition", "queues.scheduling.run.ai") is not None
    assert theirs.get("Queue", "theirs") is not None


def test_lab_that_the_cluster_does_not_have_is_named(theirs: FakeApiServer, lost: tuple[Path, str]) -> None:
    with pytest.raises(NoLab, match="cluster c has nothing of a lab other"):
        operation.down("other", at=lost)
    assert theirs.log == []


@pytest.mark.usefixtures("theirs")
def test_labels_are_not_used_where_the_state_exists(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="lab demo has its state on this machine"):
        operation.down("demo", at=(tmp_path / "config", "c"))


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
