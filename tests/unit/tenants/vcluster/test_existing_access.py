"""The first way to a tenant's API that answers: NodePort, LoadBalancer, port-forward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.errors import ApiFailed
from lab.tenants.vcluster import access, existing_access
from lab.tenants.vcluster.access import Endpoint
from tests.support.builders import node
from tests.support.fake_api_server import FakeApiServer
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.specs import EXISTING, lab_spec

SPACE = "vcluster-team-a"
KUBECONFIG = yaml.safe_dump({"clusters": [{"name": "c", "cluster": {"server": "https://localhost:8443"}}]})


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabWorld:
    world = LabWorld(lab_spec(cluster=EXISTING, gpus="none"), runner, tmp_path)
    world.tenants["team-a"] = FakeApiServer(log=world.log)
    outside = {"addresses": [{"type": "ExternalIP", "address": "198.51.100.7"}, {"type": "Hostname", "address": "a"}]}
    world.api.add(
        node("a", status=outside),
        node("b", status={"addresses": [{"type": "InternalIP", "address": "fd00::2"}]}),
        node("away", ready=False, status={"addresses": [{"type": "InternalIP", "address": "10.0.0.9"}]}),
    )
    port = {"name": "https", "port": 443, "nodePort": 31000}
    world.api.put("Service", "team-a", SPACE, spec={"type": "NodePort", "ports": [port]})
    monkeypatch.setattr(existing_access, "_free_port", lambda preferred: preferred or 45000)
    for name in ("_NODE_PORT_SECONDS", "_LOAD_BALANCER_SECONDS", "_START_SECONDS", "FORWARD_SECONDS"):
        monkeypatch.setattr(existing_access, name, 0.0)
    return world


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Servers that answer; a server that begins with a member does, too."""
    found: set[str] = set()
    monkeypatch.setattr(
        existing_access, "_answers", lambda ctx, text, one: any(one.server.startswith(part) for part in found)
    )
    return found


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files whose processes were ended."""
    found: list[Path] = []
    monkeypatch.setattr(existing_access, "end_processes_naming", found.append)
    return found


def connect(world: LabWorld) -> Endpoint:
    return existing_access.connect(world.ctx, "team-a", KUBECONFIG)


def give_address(world: LabWorld, name: str, space: str, address: str) -> None:
    ports = [{"name": "https", "port": 443}]
    status = {"loadBalancer": {"ingress": [{"ip": address}]}}
    world.api.put("Service", name, space, spec={"type": "LoadBalancer", "ports": ports}, status=status)


def test_node_port_of_the_first_ready_node_that_answers(world: LabWorld, reachable: set[str]) -> None:
    reachable.update({"https://[fd00::2]:31000", "https://10.0.0.9"})
    found = connect(world)
    assert str(found) == "https://[fd00::2]:31000 (NodePort)"
    assert access.find_endpoint(world.ctx, "team-a") == found
    path = world.paths.tenant_kubeconfig("team-a")
    cluster = yaml.safe_load(path.read_text())["clusters"][0]["cluster"]
    assert cluster == {"server": "https://[fd00::2]:31000", "tls-server-name": "localhost"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert world.owned("file") == [str(path)]


def test_endpoint_that_answers_stays(world: LabWorld, reachable: set[str]) -> None:
    reachable.add("https://[fd00::2]:31000")
    first = connect(world)
    reachable.add("https://198.51.100.7:31000")
    assert connect(world) == first


def test_load_balancer_only_where_the_cluster_has_one(world: LabWorld, reachable: set[str]) -> None:
    give_address(world, "web", "shop", "203.0.113.1")
    world.api.after("apply", "Service", lambda _: give_address(world, "team-a-access", SPACE, "203.0.113.9"))
    reachable.add("https://203.0.113.9:443")
    assert connect(world) == Endpoint("https://203.0.113.9:443", "LoadBalancer")
    made = world.api.calls_of("apply", "Service")[0].body
    assert made["metadata"]["labels"] == {"kailab": "demo"}
    assert made["spec"]["selector"] == {"app": "vcluster", "release": "team-a"}


@pytest.mark.parametrize("has_load_balancers", [True, False])
def test_port_forward_where_nothing_else_answers(
    world: LabWorld, reachable: set[str], runner: FakeRunner, ended: list[Path], has_load_balancers: bool
) -> None:
    if has_load_balancers:
        give_address(world, "web", "shop", "203.0.113.1")
    reachable.add("https://127.0.0.1:")
    shell = runner.handle(["sh", "-c"])
    found = connect(world)
    assert found == Endpoint("https://127.0.0.1:45000", "port-forward")
    assert world.api.get("Service", "team-a-access", SPACE) is None
    assert len(world.api.calls_of("apply", "Service")) == has_load_balancers
    errors = world.paths.tenant_port_forward("team-a")
    port = "45000"
    assert shell.calls[0].argv[3:] == (
        *("port-forward", str(errors), "/cache/kubectl", str(world.paths.kubeconfig), SPACE, "team-a", port),
    )
    assert errors.exists()
    assert ended == []

    reachable.clear()  # it has died, and the next one gets its port
    with pytest.raises(ApiFailed, match="neither on its NodePort nor on a LoadBalancer nor through a port-forward"):
        connect(world)
    assert [call.argv[-1] for call in shell.calls] == [port, port]
    assert not errors.exists()
    assert ended == [errors, errors]


def test_kubeconfig_names_the_server_in_the_certificate(world: LabWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    class Seen:
        def __init__(self, file: Path) -> None:
            seen.append(yaml.safe_load(file.read_text())["clusters"][0]["cluster"])

        def healthy(self, timeout: float) -> bool:
            return "198" in seen[-1]["server"]

        def close(self) -> None:
            pass

    monkeypatch.setattr(existing_access, "Cluster", Seen)
    monkeypatch.setattr(existing_access, "_NODES", 1)
    assert connect(world).server == "https://198.51.100.7:31000"
    assert seen[0] == {"server": "https://198.51.100.7:31000", "tls-server-name": "localhost"}
    assert list(world.paths.root.glob("try-*")) == []
