"""Freezing and continuing the nodes: no node may be taken for dead, and an interrupted run is finished."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lab.errors import CommandFailed, SpecError, StepFailed, WaitTimeout
from lab.operations.pause import pause
from lab.serialization import to_json
from lab.session.lab import Lab
from lab.steps.cluster import pausing
from lab.steps.cluster.pausing import freeze, thaw
from lab.tools.container import ContainerEngine
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.specs import lab_spec

CONTROL, WORKER = "kailab-demo-control-plane", "kailab-demo-worker"
CONTROLLERS = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": f"kube-controller-manager-{CONTROL}",
        "namespace": "kube-system",
        "labels": {"component": "kube-controller-manager"},
    },
    "status": {"phase": "Running"},
}


def node(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def lease(name: str, renewed: datetime) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "leaseDurationSeconds": 40},
    }


class Nodes(LabWorld):
    """Two nodes, where the pod of kube-controller-manager goes and comes with its manifest."""

    kubelet_acts = True

    def start(self) -> None:
        self.states = dict.fromkeys((CONTROL, WORKER), "running")
        self.engine.nodes = None
        self.runner.handle(["docker", "ps", "-aq"], out=lambda _: " ".join(reversed(self.states)))
        self.runner.containers(self._inspect)
        for name in self.states:
            self.api.cluster.apply([node(name), lease(name, datetime.now(UTC) - timedelta(seconds=10))])
        self.api.cluster.apply([CONTROLLERS])

    def may_pause(self) -> None:
        self.runner.handle(["docker", "pause"], out=lambda call: self.set(*call.argv[2:], "paused"))
        self.may_move()

    def may_move(self) -> None:
        self.runner.handle(["docker", "exec", CONTROL, "sh", "-c"], out=lambda call: self._shell(call.argv[-1]))

    def may_continue(self) -> None:
        self.runner.handle(["docker", "unpause"], out=lambda call: self.set(*call.argv[2:], "running"))

    def _inspect(self, name: str) -> dict[str, Any]:
        role = "control-plane" if name == CONTROL else "worker"
        return {
            "Name": f"/{name}",
            "Id": name,
            "State": {"Status": self.states[name]},
            "Config": {"Labels": {"io.x-k8s.kind.role": role}},
        }

    def set(self, *names_and_state: str) -> str:
        *names, state = names_and_state
        self.log.append(f"{state} {' '.join(names)}")
        self.states.update(dict.fromkeys(names, state))
        return ""

    def _shell(self, script: str) -> str:
        away = script == pausing._STOP
        self.log.append("controllers away" if away else "controllers back")
        assert self.paths.paused.exists(), "after a kill here, the next command starts the controllers again"
        if self.kubelet_acts and away:
            self.api.cluster.delete("Pod", CONTROLLERS["metadata"]["name"], "kube-system")  # type: ignore[index]
        elif self.kubelet_acts:
            self.api.add(CONTROLLERS)
        return ""


@pytest.fixture
def nodes(runner: FakeRunner, tmp_path_factory: pytest.TempPathFactory) -> Nodes:
    nodes = Nodes(lab_spec(), runner, tmp_path_factory.mktemp("lab"))
    nodes.start()
    nodes.log.clear()
    return nodes


def test_controllers_stop_before_the_nodes_and_start_after_the_leases(nodes: Nodes) -> None:
    nodes.may_pause()
    nodes.may_continue()
    assert freeze(nodes.ctx) == 2
    assert nodes.paths.paused.exists()
    assert thaw(nodes.ctx) == 2
    steps = [line for line in nodes.log if line.startswith(("controllers", "paused", "running"))]
    both = f"{CONTROL} {WORKER}"
    assert steps == ["controllers away", f"paused {both}", f"running {both}", "controllers back"]
    assert not nodes.paths.paused.exists()


@pytest.mark.parametrize("late", ["lease", "node"])
def test_controllers_wait_for_a_node_that_is_not_back(nodes: Nodes, late: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pausing, "_SECONDS", 0.3)
    nodes.may_pause()
    nodes.may_continue()
    freeze(nodes.ctx)
    if late == "lease":
        nodes.api.cluster.apply([lease(WORKER, datetime.now(UTC) - timedelta(seconds=75))])
    else:
        gone = node(WORKER)
        gone["status"]["conditions"][0]["status"] = "Unknown"
        nodes.api.cluster.apply([gone])
    with pytest.raises(WaitTimeout, match=f"are not Ready .* after they continued: {WORKER}"):
        thaw(nodes.ctx)
    assert "controllers back" not in nodes.log
    assert nodes.paths.paused.exists(), "the next command finishes it"


def test_continued_lab_has_its_controllers(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next pause waits for the end of their pods, so it must not come before these exist."""
    nodes.may_pause()
    nodes.may_continue()
    freeze(nodes.ctx)
    monkeypatch.setattr(pausing, "_SECONDS", 0.3)
    nodes.kubelet_acts = False
    with pytest.raises(WaitTimeout, match="kube-controller-manager runs again"):
        thaw(nodes.ctx)
    nodes.kubelet_acts = True
    assert thaw(nodes.ctx) == 0
    assert not nodes.paths.paused.exists()


def test_interrupted_runs_are_finished(nodes: Nodes) -> None:
    nodes.may_pause()
    nodes.states[WORKER] = "paused"  # killed between two nodes
    assert freeze(nodes.ctx) == 1
    nodes.states = dict.fromkeys(nodes.states, "running")  # killed before the controllers are back
    assert thaw(nodes.ctx) == 0
    assert nodes.log[-1] == "controllers back"
    assert not nodes.paths.paused.exists()


def test_lab_runs_on_if_a_node_cannot_be_frozen(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ContainerEngine.pause.retry, "stop", lambda state: True)
    nodes.runner.handle(["docker", "pause"], out=lambda _: nodes.set(CONTROL, "paused"), code=1, err="unable to freeze")
    nodes.may_move()
    nodes.may_continue()
    with pytest.raises(CommandFailed, match="status 1"):
        freeze(nodes.ctx)
    assert nodes.log[-1] == "controllers back"
    assert set(nodes.states.values()) == {"running"}
    assert not nodes.paths.paused.exists()


def test_lab_runs_on_if_its_controllers_do_not_stop(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pausing, "_SECONDS", 0.3)
    nodes.may_move()
    nodes.kubelet_acts = False
    with pytest.raises(WaitTimeout, match="kube-controller-manager has stopped"):
        freeze(nodes.ctx)
    assert nodes.log[-1] == "controllers back"
    assert not nodes.paths.paused.exists()


def test_a_paused_lab_is_named_so(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes.may_pause()
    Lab.of(nodes.spec).session.save()
    freeze(nodes.ctx)
    with pytest.raises(StepFailed) as refused:
        Lab.attach("demo")
    assert json.loads(json.dumps(to_json(refused.value))) == {
        "error": "StepFailed",
        "what": "lab 'demo' is paused",
        "command": "",
        "evidence": [],
        "next": "kailab resume --name demo",
        "exit_code": 5,
    }
    assert Lab.attach("demo", paused=True).spec.name == "demo"


def test_nodes_of_others_are_never_frozen() -> None:
    spec = lab_spec(cluster={"provider": "existing", "kubeconfig": "/x", "context": "theirs"})
    with pytest.raises(SpecError, match="is on an existing cluster"):
        pause(Lab.of(spec))


def test_a_stopped_lab_is_not_called_paused(nodes: Nodes) -> None:
    nodes.states = dict.fromkeys(nodes.states, "exited")
    assert freeze(nodes.ctx) == 0
    assert not nodes.paths.paused.exists()


def test_a_lab_that_is_not_paused_is_left_alone(nodes: Nodes) -> None:
    """Also a stopped one, whose API server cannot answer."""
    nodes.states = dict.fromkeys(nodes.states, "exited")
    nodes.api.alive = False
    assert thaw(nodes.ctx) == 0
    assert nodes.log == []
