"""A lab installs KAI and tenants from a mirror in a stranger's cluster: changed under load, removed without trace."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.config import TenantSpec
from lab.errors import NotProven, SpecError
from lab.kube import Cluster
from lab.steps import helm_release
from lab.steps.kai.step import NAMESPACE, RELEASE
from lab.tenants.vcluster.values import tenant_images
from lab.watch.manifests import LOCAL_IMAGE
from tests.integration.conftest import Cli
from tests.integration.guest_lab import GUEST, Guest
from tests.integration.kai_lines import two_lines
from tests.integration.strangers_cluster import MIRROR, PROBE, SECRET, SPACE, Stranger, strangers_cluster
from tests.support.cluster_objects import changes, objects_in

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

SUPPLY = {"mirrors": dict.fromkeys(("ghcr.io", "registry.kailab.dev"), MIRROR), "pullSecrets": [SECRET]}
TENANTS = {"own": "own-kai", "shared": "host-kai", "plain": "default"}

Json = dict[str, Any]


@pytest.fixture(scope="module")
def stranger(engine: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    """A cluster without KAI and GPUs. Its nodes have all images by the names of a mirror."""
    versions, tenant = two_lines(), TenantSpec(name="plain", mode="default")
    with strangers_cluster("it-hosts", tmp_path_factory.mktemp("hosts"), tenants=(tenant,)) as found:
        images = {PROBE, LOCAL_IMAGE, *tenant_images(tenant)}.union(*map(found.images_of_kai, versions))
        found.mirror(MIRROR, *sorted(images))
        found.secret(SECRET)
        found.work()
        yield found


@pytest.fixture
def guest(cli: Cli, stranger: Stranger) -> Iterator[Guest]:
    """A lab with the older KAI, simulated GPUs and a tenant of each mode; at the end the cluster must be as before."""
    before, (older, _), nodes = objects_in(stranger.cluster), two_lines(), sorted(stranger.nodes)[1:]
    gpus = {"own": 2, "shared": 1, "plain": 1}
    tenants: list[Json] = [{"name": one, "mode": mode, "quota": {"gpus": gpus[one]}} for one, mode in TENANTS.items()]
    # reservation pods of a tenant's KAI need NVML
    tenants[0] |= {"kaiVersion": older, "gpuSharing": False, "nodes": nodes[-1:]}
    made = Guest(cli, stranger)
    made.write(
        kai={"manage": "install", "version": older},
        gpu={"mode": "simulated", "nodes": nodes, "perNode": 2, "model": "A100-40", "image": LOCAL_IMAGE},
        budget={"gpus": 5},  # the load of an upgrade needs two GPUs beside the tenants own and plain
        supply=SUPPLY,
        tenants=tenants,
    )
    yield made
    cli("down", "--name", GUEST, code=None)
    assert changes(before, objects_in(stranger.cluster)) == []


def kai_of(cluster: Cluster) -> str:
    """Version of the Helm release."""
    release = helm_release.installed(cluster, RELEASE, NAMESPACE)
    return release.chart_version.removeprefix("v") if release else ""


@contextmanager
def node_ports_closed(stranger: Stranger) -> Iterator[None]:
    """Drop packets of this machine to NodePorts, as a firewall in front of the nodes would."""
    rule = ["PREROUTING", "-i", "eth0", "-p", "tcp", "--dport", "30000:32767", "-j", "DROP"]
    table = ["iptables", "-w", "-t", "raw"]
    for node in stranger.nodes:
        stranger.run.run(["docker", "exec", node, *table, "-I", *rule])
    try:
        yield
    finally:
        for node in stranger.nodes:
            stranger.run.run(["docker", "exec", node, *table, "-D", *rule])


def all_served(services: list[Json]) -> bool:
    return all(one["status"]["loadBalancer"] for one in services)


@contextmanager
def load_balancers(stranger: Stranger) -> Iterator[None]:
    """Give Services of type LoadBalancer the address of a worker, where kube-proxy serves it; one exists already."""
    cluster, ended = stranger.cluster, threading.Event()
    addresses = (cluster.get("Node", stranger.workers[0]) or {})["status"]["addresses"]
    address = next(one["address"] for one in addresses if one["type"] == "InternalIP")

    def serve() -> None:
        while not ended.wait(0.5):
            for service in cluster.list("Service"):
                if service["spec"]["type"] == "LoadBalancer" and not service["status"]["loadBalancer"]:
                    meta = service["metadata"]
                    status = {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}
                    cluster.patch("Service", meta["name"], status, meta["namespace"], subresource="status")

    spec = {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]}
    web = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": SPACE}, "spec": spec}
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        cluster.apply([web])
        cluster.wait("Service", all_served, namespace=SPACE, timeout=30, what="the stranger's Service has an address")
        yield
    finally:
        ended.set()
        thread.join()
        cluster.delete("Service", "web", SPACE)


def access_of(guest: Guest) -> str:
    """How the tenant plain is reached, according to ``kailab status``; its API must answer with its certificate."""
    status = guest.lab("status", "--json")
    assert status["ok"]
    with closing(Cluster(Path(guest.cli("kubeconfig", "plain", "--name", GUEST).out.strip()))) as tenant:
        assert tenant.poll(tenant.healthy, timeout=20)
    (detail,) = (step["detail"] for step in status["steps"] if step["id"] == "tenant:plain")
    return str(detail).rpartition("(")[2].rstrip(")")


PLAIN = {
    "kai": {"manage": "none"},
    "gpu": {"mode": "none"},
    "queues": [],
    "tenants": [{"name": "plain", "mode": "default"}],
    "supply": SUPPLY,
}


def test_port_forward_where_nothing_else_reaches_a_tenant(guest: Guest) -> None:
    guest.write(**PLAIN)
    with node_ports_closed(guest.stranger):
        guest.up()
        assert access_of(guest) == "port-forward"
        forwards = "port-forward --address 127.0.0.1 service/plain"
        guest.stranger.run.run(["pkill", "-f", f"kubectl.*{forwards}"])
        assert access_of(guest) == "port-forward"
        assert guest.up()["changed"] == 0
    guest.down()
    assert guest.stranger.run.run(["pgrep", "-f", forwards], check=False).code == 1


def test_load_balancer_where_node_ports_are_closed(guest: Guest) -> None:
    guest.write(**PLAIN)
    with node_ports_closed(guest.stranger), load_balancers(guest.stranger):
        guest.up()
        assert access_of(guest) == "LoadBalancer"
        assert guest.up()["changed"] == 0
        guest.down()


def test_tenant_without_a_storage_class_is_refused(guest: Guest) -> None:
    cluster, default = guest.stranger.cluster, "storageclass.kubernetes.io/is-default-class"
    (name,) = (one["metadata"]["name"] for one in cluster.list("StorageClass"))
    guest.write(**PLAIN)
    cluster.patch("StorageClass", name, {"metadata": {"annotations": {default: "false"}}})
    try:
        assert "no default StorageClass" in guest.refused(SpecError.exit_code)
    finally:
        cluster.patch("StorageClass", name, {"metadata": {"annotations": {default: "true"}}})


def test_role_of_the_plan_suffices_and_lost_state_is_found(guest: Guest) -> None:
    """A user who may only read gets the Role of the plan: KAI, GPUs and a tenant of each mode come up and go."""
    with guest.with_the_role() as file:
        guest.up()
        assert guest.lab("status", "--json")["ok"]
        shutil.rmtree(Path(guest.cli.env["KAILAB_STATE"]) / "labs" / GUEST)
        at = ("--kubeconfig", str(file), "--context", guest.stranger.context)
        assert guest.cli("down", *at, "--lab", GUEST, "--json").json()["left"] == []


def test_tenants_come_are_upgraded_and_go(guest: Guest) -> None:
    (older, newer), cli, host = two_lines(), guest.cli, guest.stranger.cluster
    named, quick = ("--name", GUEST, "--json"), ("--no-suites",)
    plan = guest.lab("plan", "--json")["existing"]
    assert (plan["missing"], "missing" in plan["images"].values()) == ([], False)
    guest.up()
    assert guest.up()["changed"] == 0
    assert guest.lab("status", "--json")["ok"]
    for name in TENANTS:
        file = Path(cli("kubeconfig", name, "--name", GUEST).out.strip())
        with closing(Cluster(file)) as tenant:
            assert tenant.healthy(), name
            if name == "own":
                assert kai_of(tenant) == older

    # a tenant's KAI, there and back
    found = cli("tenant", "upgrade", "own", "--kai", newer, *named, *quick, code=NotProven.exit_code).json()
    assert (found["reasons"], found["now"]) == ([], newer)
    assert cli("tenant", "rollback", "own", *named).json()["now"] == older

    # the host's own, under load, beside that tenant
    changed = cli("kai", "upgrade", newer, *named, *quick, code=NotProven.exit_code, timeout=1500).json()
    (rehearsal,) = changed["rehearsals"]
    assert (rehearsal["reasons"], changed["now"], kai_of(host)) == ([], newer, newer)
    assert {one["name"]: bool(one["seconds"]) for one in rehearsal["load"]} == dict.fromkeys(
        ("gang", "fractions", "gpu"), True
    )
    assert rehearsal["invariants"]["ok"]
    back = cli("kai", "rollback", *named, timeout=1500).json()
    assert (back["verdict"], back["now"], kai_of(host)) == ("green", older, older)
    assert guest.lab("status", "--json")["ok"]
    guest.down()
