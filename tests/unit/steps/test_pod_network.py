"""Step ``network``: routes and CNI files in nodes built here, and Services in all nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.config import LabSpec
from lab.engine.step import State
from lab.errors import StepFailed
from lab.steps import pod_network
from lab.steps.pod_network import PodNetwork
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld

NODES = ("kailab-demo-control-plane", "kailab-demo-worker")
CONTAINERS = (*NODES, "kailab-demo-external-load-balancer")
ADDRESS = "10.96.0.1"


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path) -> LabWorld:
    world = LabWorld(LabSpec.model_validate({"name": "demo", "cluster": {"workers": 1}}), runner, tmp_path)
    world.api.put("Service", "kubernetes", "default", spec={"clusterIP": ADDRESS})
    for number, name in enumerate(NODES):
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        world.api.put("Node", name, spec={"podCIDR": f"10.244.{number}.0/24"}, status=ready)
    return world


def answers(world: LabWorld, *results: bool) -> None:
    """Make the API's Service answer, or not, each time a node is looked at; the last result stays."""
    for node in NODES:
        left = list(results)

        def answer(call: Any, left: list[bool] = left) -> str:
            assert call.argv[-1] == ADDRESS
            return "Services answer\n" if (left.pop(0) if len(left) > 1 else left[0]) else ""

        world.runner.handle(["docker", "exec", node, "sh", "-c"], out=answer)


def step(world: LabWorld) -> PodNetwork:
    return PodNetwork(world.spec, own_node=False)


def test_nodes_with_services_are_ready(world: LabWorld) -> None:
    answers(world, True)
    assert step(world).observe(world.ctx).state is State.READY
    step(world).apply(world.ctx)


def test_restarted_nodes_are_waited_for_until_they_have_services(world: LabWorld) -> None:
    """The API still has the states of before the restart: nodes and kube-proxy seem to be Ready."""
    answers(world, False, False, True)
    observed = step(world).observe(world.ctx)
    assert (observed.state, observed.detail) == (
        State.DRIFTED,
        f"no Services in {', '.join(NODES)}: kube-proxy has not started",
    )
    step(world).apply(world.ctx)
    assert step(world).observe(world.ctx).state is State.READY


def test_nodes_that_get_no_services_are_named(world: LabWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_network, "_READY_SECONDS", 0.0)
    answers(world, False)
    with pytest.raises(StepFailed, match="does not answer in kailab-demo-control-plane, kailab-demo-worker"):
        step(world).apply(world.ctx)


def test_routes_and_files_of_nodes_built_here_are_compared(world: LabWorld) -> None:
    """What ``apply`` writes into a node is what ``observe`` looks for."""
    world.engine.nodes = None
    world.runner.handle("docker ps", out="\n".join(reversed(CONTAINERS)))  # newest first
    world.runner.containers(
        lambda name: {
            "Name": f"/{name}",
            "Id": name,
            "State": {"Status": "running"},
            "Config": {"Labels": {}, "Image": "node"},
            "NetworkSettings": {"Networks": {"kind": {"IPAddress": f"172.18.0.{2 + CONTAINERS.index(name)}"}}},
        }
    )
    written: dict[str, str] = {}

    def wrote(node: str) -> Callable[[Any], str]:
        def keep(call: Any) -> str:
            text = str(call.stdin)
            files = [part.split("KAILAB\n", 1)[0] for part in text.split("<<'KAILAB'\n")[1:]]
            written[node] = files[-1] + files[0]  # CNI's file, and the script
            return ""

        return keep

    for number, node in enumerate(NODES):
        other = 1 - number
        route = f"10.244.{other}.0/24 via 172.18.0.{2 + other} dev eth0\n"
        world.runner.handle(["docker", "exec", "-i", node, "sh", "-s"], out=wrote(node))
        world.runner.handle(
            ["docker", "exec", node, "sh", "-c"],
            out=lambda call, node=node, route=route: f"{written.get(node, '')}{route}Services answer\n",
        )
    own = PodNetwork(world.spec, own_node=True)
    assert own.observe(world.ctx).detail == "routes or CNI files differ"
    own.apply(world.ctx)
    assert own.observe(world.ctx).detail == "2 nodes Ready"
    assert all("iptables -w -t nat -A KUBE-SERVICES" in files for files in written.values())
    written[NODES[1]] = "other" + written[NODES[1]]
    assert own.observe(world.ctx).detail == "routes or CNI files differ"
