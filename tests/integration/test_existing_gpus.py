"""Simulated GPUs on a cluster of somebody else: KAI schedules with them, and the nodes are then as they were."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.errors import LabError, Leftovers, WaitTimeout
from lab.gpu.simulated.assigner import namespace
from lab.kai.names import GPU_RESOURCE
from lab.tools.container import ContainerEngine
from lab.watch.manifests import LOCAL_IMAGE
from lab.workloads.pods import gpu_pod
from tests.integration import local_registry
from tests.integration.conftest import SIGKILL, Cli, at_start_of, run_suites
from tests.integration.guest_lab import GUEST, Guest, left_as_found, simulated
from tests.integration.strangers_cluster import MIRROR, PROBE, SECRET, SPACE, Stranger, cluster_without_gpus
from tests.support.cluster_objects import changes, objects_in

KAI = "0.16.8"
DISTURBING = "(test_disorder or test_placement or test_preemption or test_queue_trees or test_topology) and not spread"
"""Without the test after which KAI's scheduler has another ReplicaSet: the cluster would not be as it was."""
SUITES = ("test_kai_pods", "test_reservation_pods", "test_queues", "test_gangs", "test_lab_is_real")

Json = dict[str, Any]


@pytest.fixture(scope="module")
def stranger(engine: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    """A cluster with KAI and workloads, and without GPUs. Its nodes have kailab's images by the name of a mirror."""
    with cluster_without_gpus("it-plain", tmp_path_factory.mktemp("plain"), KAI) as found:
        yield found


@pytest.fixture
def guest(cli: Cli, stranger: Stranger) -> Iterator[Guest]:
    """A lab with two simulated GPUs on each worker; at the end the cluster must be as it was, node status included."""
    with left_as_found(cli, stranger):
        made = Guest(cli, stranger)
        made.write(**simulated(stranger, 2))
        yield made


@pytest.mark.timeout(1800)
def test_suites_pass_and_nothing_is_left(guest: Guest) -> None:
    """All of it as a user with no other rights than to read, and the Roles of the plan."""
    with guest.with_the_role():
        plan = guest.lab("plan", "--json")["existing"]
        assert plan["missing"] == plan["missing_for_suites"] == []
        assert f"Deployment {namespace(GUEST)}/gpu-assigner" in plan["objects"]
        assert plan["images"][f"{MIRROR}/watch:1"] == "nodes"
        up = guest.up()
        assert (up["facts"]["gpu_mode"], up["facts"]["gpus"]) == ("simulated", "2 nodes × 2 NVIDIA A100-SXM4-40GB")
        assert guest.up()["changed"] == 0
        assert guest.lab("status", "--json")["ok"]
        (copied,) = guest.stranger.cluster.list("Secret", namespace(GUEST), labels=f"kailab={GUEST}")
        assert copied["metadata"]["name"] == SECRET
        deployment = guest.stranger.cluster.get("Deployment", "gpu-assigner", namespace(GUEST)) or {}
        assert deployment["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": SECRET}]

        run_suites(guest.cli.env, GUEST, *(f"tests/e2e/{name}.py" for name in SUITES), "--lab-require", "kai,gpus")
        assert "FAILED" not in (guest.cli("verify", "--name", GUEST).out)

        # a kubelet that starts again keeps the number
        node = guest.stranger.workers[0]
        guest.stranger.run.run(["docker", "exec", node, "systemctl", "restart", "kubelet"])
        guest.stranger.cluster.wait_ready("Node", node, timeout=60)
        assert guest.lab("status", "--json")["ok"]
        guest.down()


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_kailab_e2e_has_an_exclusive_cluster_with_nodes_of_8_gpus(guest: Guest) -> None:
    """As ``nox -s e2e`` runs it: in two processes, with tests that need quota, and those that disturb others."""
    guest.write(**simulated(guest.stranger, 8, exclusive=True))
    guest.up()
    top = guest.stranger.cluster.get("Queue", GUEST) or {}
    assert top["spec"]["resources"]["gpu"] == {"quota": 16, "limit": 16, "overQuotaWeight": 1}
    passed, reasons = guest.e2e(DISTURBING)
    assert passed >= {
        "test_killed_component_loses_no_pod",
        "test_pods_of_a_drained_node_come_back_elsewhere",
        "test_non_preemptible_work_is_not_preempted",
        "test_pods_are_packed_onto_one_node",
    }
    assert not [why for why in reasons if "disturbs others" in why or "needs quota" in why]
    assert guest.lab("status", "--json")["ok"]
    guest.down()


@pytest.mark.long
def test_registry_with_a_login(guest: Guest, tmp_path: Path) -> None:
    """The nodes pull with the lab's pull secret; without it they do not, and the lab says why."""
    stranger, supply = guest.stranger, guest.stranger.supply
    if not supply.has("binary", "registry"):
        pytest.skip("no registry program")
    program, content = supply.binary("registry"), tmp_path / "registry"
    with local_registry.serving(program, content, tmp_path) as address:
        for image, name in ((LOCAL_IMAGE, "watch:1"), (PROBE, "probe:2")):
            local_registry.push(supply.image(image), f"{address}/{name}", ContainerEngine(stranger.run), tmp_path)
    with local_registry.serving(program, content, tmp_path, login=True) as address:
        registry = stranger.reach(int(address.partition(":")[2]))
        lab = simulated(stranger, 2)
        lab["supply"] = {"mirrors": {"registry.kailab.dev": registry}}
        guest.write(**lab)
        assert "pull access denied" in guest.refused(WaitTimeout.exit_code)
        guest.down()
        stranger.secret("it-login", {registry: local_registry.LOGIN})
        lab["supply"]["pullSecrets"] = ["it-login"]
        guest.write(**lab)
        guest.up()
        run_suites(guest.cli.env, GUEST, "tests/e2e/test_kai_pods.py", "--lab-require", "kai,gpus")
        guest.down()
        stranger.cluster.delete("Secret", "it-login", "default")


def test_watch_of_a_cluster_without_a_lab(cli: Cli, stranger: Stranger) -> None:
    """Its pods pull the image from a registry; removed, it leaves the cluster as it was."""
    before, at = objects_in(stranger.cluster), Guest(cli, stranger).at
    cli("watch", "install", *at, "--image", f"{MIRROR}/watch:1", "--canary", "--interval", "5")
    status = cli("watch", "status", *at, "--json").json()
    assert (status["ready"], status["kai_version"]) == (True, KAI)
    cli("watch", "remove", *at)
    assert changes(before, objects_in(stranger.cluster)) == []


def test_pods_of_others_keep_their_gpus(guest: Guest) -> None:
    cluster = guest.stranger.cluster
    guest.up()
    theirs = gpu_pod("theirs", namespace=SPACE, scheduler=None)
    del theirs["spec"]["runtimeClassName"]  # the cluster has none
    cluster.apply([theirs])
    try:
        cluster.wait_ready("Pod", "theirs", SPACE, timeout=60)
        refused = guest.cli("down", "--name", GUEST, code=Leftovers.exit_code).err
        assert f"pod {SPACE}/theirs" in refused
        node = cluster.get("Pod", "theirs", SPACE)["spec"]["nodeName"]  # type: ignore[index]
        assert cluster.get("Node", node)["status"]["capacity"][GPU_RESOURCE] == "2"  # type: ignore[index]
    finally:
        cluster.delete("Pod", "theirs", SPACE, grace=0, wait=60)
    guest.down()


def test_killed_lab_and_lost_state(guest: Guest) -> None:
    done = guest.cli.until(at_start_of("gpu-nodes"), SIGKILL, "up", "--yes", "-f", str(guest.file), delay=0.05)
    assert done.code == -SIGKILL
    guest.up()
    shutil.rmtree(Path(guest.cli.env["KAILAB_STATE"]) / "labs" / GUEST)
    assert guest.cli("down", *guest.at, "--lab", GUEST, "--json").json()["left"] == []


def test_nodes_and_clusters_with_gpus_are_refused(guest: Guest) -> None:
    stranger, status = guest.stranger, {"capacity": {GPU_RESOURCE: "8"}, "allocatable": {GPU_RESOURCE: "8"}}
    first, second = stranger.workers
    guest.write(gpu={"mode": "simulated", "nodes": [first], "image": LOCAL_IMAGE})
    for node, why in ((first, f"node {first} has {GPU_RESOURCE} already"), (second, f"node {second} offers 8")):
        stranger.cluster.patch("Node", node, {"status": status}, subresource="status")
        try:
            assert why in guest.refused(LabError.exit_code)
        finally:
            gone = {key: {GPU_RESOURCE: None} for key in status}
            stranger.cluster.patch("Node", node, {"status": gone}, subresource="status")
