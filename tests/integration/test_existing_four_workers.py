"""A stranger's cluster with four workers: suites that need them, GPUs of each kind, and a node that is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.errors import LabError
from lab.kai.names import GPU_RESOURCE
from lab.kube.readiness import is_ready
from lab.workloads.pods import cpu_pod
from tests.integration.conftest import Cli
from tests.integration.guest_lab import GUEST, Guest, gpus_of, left_as_found, simulated
from tests.integration.strangers_cluster import MIRROR, SECRET, SPACE, Stranger, cluster_without_gpus
from tests.support.cluster_objects import changes, objects_in

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]

KAI = "0.16.8"
SCHEDULER = "kai-scheduler/kai-scheduler-default"
OF_FOUR = "test_consolidation or test_topology or test_placement or test_gangs"
OF_WHOLE_GPUS = "test_queues or test_gangs or test_reclaim or test_preemption"
MIG, SHARED = "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"
OFFERED = ({GPU_RESOURCE: 4}, {GPU_RESOURCE: 4}, {MIG: 7}, {SHARED: 8})
"""What each worker of a cluster with a device plugin offers: whole GPUs, MIG devices, time slices."""

MIRRORED = {"mirrors": {"registry.kailab.dev": MIRROR}, "pullSecrets": [SECRET]}


@pytest.fixture(scope="module")
def stranger(engine: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    """A cluster with KAI and workloads. Its nodes have kailab's images by the name of a mirror."""
    with cluster_without_gpus("it-four", tmp_path_factory.mktemp("four"), KAI, workers=4) as found:
        yield found


@pytest.fixture
def guest(cli: Cli, stranger: Stranger) -> Iterator[Guest]:
    """A guest; at the end the cluster must be as it was, node status included."""
    with left_as_found(cli, stranger):
        yield Guest(cli, stranger)


def test_suites_that_need_four_nodes(cli: Cli, stranger: Stranger) -> None:
    """With those that change KAI's scheduler, which then has another ReplicaSet."""
    guest, before = Guest(cli, stranger), objects_in(stranger.cluster)
    guest.write(**simulated(guest.stranger, 2, exclusive=True))
    guest.up()
    passed, skipped = guest.e2e(OF_FOUR)
    wanted = {
        "test_fragmented_gpus_are_consolidated",
        "test_gang_stays_within_one_rack",
        "test_gang_that_no_rack_can_hold_waits_beside_free_gpus",
        "test_of_two_gangs_that_do_not_fit_together_one_starts",
        "test_pods_are_packed_onto_one_node",
        "test_pods_are_spread_over_nodes_and_gpus",
    }
    guest.down()
    assert wanted <= passed, skipped
    assert [line for line in changes(before, objects_in(stranger.cluster)) if SCHEDULER not in line] == []


@contextmanager
def offered(stranger: Stranger) -> Iterator[None]:
    """Let each worker report its devices, as a device plugin with MIG and time slices would."""
    names = {name for some in OFFERED for name in some}

    def report(node: str, devices: dict[str, str | None]) -> None:
        status = {"capacity": devices, "allocatable": devices}
        stranger.cluster.patch("Node", node, {"status": status}, subresource="status")

    for node, devices in zip(stranger.workers, OFFERED, strict=True):
        report(node, {name: str(count) for name, count in devices.items()})
    try:
        yield
    finally:
        stranger.cluster.delete("Pod", "theirs", SPACE, grace=0, wait=60)
        for node in stranger.workers:
            report(node, dict.fromkeys(names))


def test_gpus_of_each_kind_beside_pods_of_others(guest: Guest) -> None:
    """Each resource counts as what it is; the suites stay within the budget, and the others keep their GPUs."""
    cluster = guest.stranger.cluster
    guest.write(budget={"gpus": 4}, supply=MIRRORED)
    with offered(guest.stranger):
        theirs = cpu_pod("theirs", namespace=SPACE, scheduler=None)
        theirs["spec"]["containers"][0]["resources"] = {"limits": {GPU_RESOURCE: 3}}
        theirs["spec"]["nodeName"] = guest.stranger.workers[0]
        cluster.apply([theirs])
        uid = cluster.wait_ready("Pod", "theirs", SPACE, timeout=60)[0]["metadata"]["uid"]
        found = guest.lab("plan", "--json")["existing"]["inventory"]
        assert found["gpus"] == {GPU_RESOURCE: 8, MIG: 7, SHARED: 8}
        up = guest.up()
        assert (up["facts"]["gpu_mode"], up["facts"]["gpus"]) == (
            "present",
            f"2 nodes × 4 GPUs, 1 node × 7 {MIG}, 1 node × 8 {SHARED}",
        )
        passed, skipped = guest.e2e(OF_WHOLE_GPUS)
        assert {"test_borrowed_gpus_go_back", "test_gang_waits_for_its_members"} <= passed, skipped
        assert (cluster.get("Pod", "theirs", SPACE) or {})["metadata"]["uid"] == uid
        assert guest.lab("status", "--json")["ok"]
        guest.down()


def test_lab_without_kai(guest: Guest) -> None:
    """Beside a KAI of others that it does not use."""
    guest.write(kai={"manage": "none"}, gpu={"mode": "none"}, queues=[], supply=MIRRORED)
    up = guest.up()
    assert up["facts"]["scheduler"] == "default"
    assert guest.lab("status", "--json")["ok"]
    artifacts = guest.cli.root / "artifacts"
    guest.cli.env["KAILAB_ARTIFACTS"] = str(artifacts)
    guest.cli("e2e", "--name", GUEST, "-k", "test_no_kai or test_lab_is_real")
    guest.down()


def test_node_that_is_deleted(cli: Cli, stranger: Stranger) -> None:
    """The last test, as the node that comes back is another object. The lab goes on, and repairs it when asked."""
    guest, cluster, node = Guest(cli, stranger), stranger.cluster, stranger.workers[-1]
    before, labels = objects_in(cluster), gpus_of(stranger)[node][0]
    guest.write(**simulated(stranger, 2))
    guest.up()
    cluster.delete("Node", node, wait=30)
    status = guest.lab("status", "--json", code=5)
    assert any(node in f"{step['detail']} {step.get('diff')}" for step in status["steps"] if step["id"] == "gpu-nodes")
    assert f"node {node} does not exist" in guest.refused(LabError.exit_code)
    stranger.run.run(["docker", "exec", node, "systemctl", "restart", "kubelet"])
    cluster.wait("Node", lambda nodes: sum(map(is_ready, nodes)) == 5, timeout=120, what=f"{node} is back")
    guest.up()
    assert guest.lab("status", "--json")["ok"]
    cluster.delete("Node", node, wait=30)
    guest.down()
    stranger.run.run(["docker", "exec", node, "systemctl", "restart", "kubelet"])
    cluster.wait("Node", lambda nodes: sum(map(is_ready, nodes)) == 5, timeout=120, what=f"{node} is back")
    assert [line for line in changes(before, objects_in(cluster)) if f"/{node}" not in line] == []
    assert gpus_of(stranger)[node][0] == labels
