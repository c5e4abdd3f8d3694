"""The GPU map: the pods on each GPU, and the state that follows."""

from __future__ import annotations

import json

import pytest

from lab.gpu.map.build import map_of
from lab.gpu.map.model import Gpu, GpuMap, GpuState
from lab.gpu.map.text import gpu_lines, summary_line
from lab.serialization import to_json
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from tests.support.builders import node
from tests.support.gpu_map_world import MEMORY, GpuCluster, demo, many, pod


def states(gpus: GpuMap) -> list[str]:
    return [gpu.state.value for gpu in gpus.gpus]


def names(gpu: Gpu) -> list[str]:
    return [holder.title for holder in gpu.holders]


def test_demo_shows_every_kind_of_gpu() -> None:
    gpus = demo().map()
    assert states(gpus) == ["shared", "whole", "unhealthy", "free"]
    shared, whole, broken, free = gpus.gpus
    assert (shared.index, shared.model, shared.memory) == (0, "NVIDIA A100-SXM4-40GB", MEMORY)
    assert shared.reservations == ("kai-resource-reservation/gpu-reservation-67073eedf57d56d9",)
    assert (shared.group, shared.used, shared.free) == ("g1", 0.75, 0.25)
    assert [(h.title, h.tenant, h.queue, h.asked, h.share) for h in shared.holders] == [
        ("default/infer", "", "test", "10240 MiB", 0.25),
        ("team-a/train-0", "my-vcluster", "test", "0.5", 0.5),
    ]
    assert shared.holders[1].on_host == "vcluster-my-vcluster/train-0-x-team-a-x-my-vcluster"
    assert (names(whole), whole.holders[0].tenant, whole.free) == (["default/research"], "research-cluster", 0)
    assert (broken.trouble, broken.free) == ("XID 79, GPU has fallen off the bus", 0)
    assert free.free == 1
    assert [(p.title, p.asked, p.gpus) for p in gpus.waiting] == [("default/big", "2 GPUs", 2)]
    assert gpus.waiting[0].why.startswith("no nodes with enough resources")
    assert (gpus.others, gpus.largest_free, gpus.notes) == (1, 1, ())


def test_json_has_summary_and_states() -> None:
    data = json.loads(json.dumps(to_json(demo().map())))
    assert data["summary"] == {
        "nodes": 2,
        "nodes_without_gpus": 1,
        "gpus": 4,
        "free": 1,
        "shared": 1,
        "whole": 1,
        "over": 0,
        "unhealthy": 1,
        "largest_free_share": 1.0,
        "waiting": 1,
    }
    gpu = data["nodes"][0]["gpus"][0]
    assert (gpu["state"], gpu["used"], gpu["gpu_group"]) == ("shared", 0.75, "g1")
    assert gpu["pods"][1]["tenant"] == "my-vcluster"


def test_gpu_with_shares_above_one_is_over_committed() -> None:
    cluster = GpuCluster()
    machine = cluster.machine("worker", 1)
    cluster.share(machine, 0, "g", pod("a", fraction="0.75"), pod("b", fraction="0.5"))
    (gpu,) = cluster.map().gpus
    assert (gpu.state, gpu.used, gpu.free) == (GpuState.OVER, 1.25, 0)


def test_shares_of_exactly_one_gpu_do_not_over_commit_it() -> None:
    cluster = GpuCluster()
    machine = cluster.machine("worker", 1)
    cluster.share(machine, 0, "g", *(pod(f"p{n}", fraction="0.1") for n in range(10)))
    (gpu,) = cluster.map().gpus
    assert (gpu.state, gpu.used, gpu.free) == (GpuState.SHARED, 1.0, 0)


def test_gpu_with_two_reservation_pods_is_over_committed() -> None:
    cluster = GpuCluster()
    machine = cluster.machine("worker", 1)
    cluster.share(machine, 0, "g1")
    cluster.share(machine, 0, "g2")
    (gpu,) = cluster.map().gpus
    assert gpu.state is GpuState.OVER
    assert len(gpu.reservations) == 2


def test_tenant_with_own_kai_reserves_inside_the_tenant() -> None:
    cluster = GpuCluster()
    machine = cluster.machine("worker", 2)
    cluster.share(machine, 1, "same", pod("theirs", tenant="ml", fraction="0.5"), own="ml")
    cluster.share(machine, 0, "same", pod("ours", fraction="0.25"))
    first, second = cluster.map().gpus
    assert (names(first), names(second)) == (["default/ours"], ["default/theirs"])
    assert second.reservations[0].startswith("vcluster-ml/gpu-reservation-")
    assert [gpu.state for gpu in (first, second)] == [GpuState.SHARED] * 2  # neither pod requests a whole GPU


def test_pod_on_several_shared_gpus_is_listed_on_each() -> None:
    cluster = GpuCluster()
    machine = cluster.machine("worker", 2)
    wide = pod("wide", fraction="0.5", devices=2)
    cluster.share(machine, 0, "g0", wide)
    cluster.share(machine, 1, "g1")
    del wide["metadata"]["labels"]["runai-gpu-group"]
    wide["metadata"]["labels"] |= {"runai-gpu-group/g0": "g0", "runai-gpu-group/g1": "g1"}
    gpus = cluster.map()
    assert [(names(gpu), gpu.used) for gpu in gpus.gpus] == [(["default/wide"], 0.5)] * 2
    assert gpus.gpus[0].holders[0].asked == "0.5 × 2"


def test_gpus_without_known_uuids_are_counted() -> None:
    cluster = GpuCluster()
    machine = cluster.machine("a10-node", 4)
    cluster.share(machine, 2, "g", pod("half", fraction="0.5"), pod("some", memory=6000))
    cluster.pods.append(pod("two", gpus=2, node="a10-node", scheduler="default-scheduler"))
    cluster.nodes, cluster.machines = [machine.node()], []
    gpus = cluster.map()
    assert states(gpus) == ["shared", "whole", "whole", "free"]
    assert [bool(gpu.uuid) for gpu in gpus.gpus] == [True, False, False, False]
    assert [gpu.index for gpu in gpus.gpus] == [None] * 4
    assert gpus.gpus[0].holders[1].share is None  # the memory of the GPU is unknown
    assert summary_line(gpus).startswith("4 GPUs on 1 node: 1 free, 1 shared, 2 whole, 0 over-committed, 0 unhealthy")
    assert "shared ≥ 50 %" in "\n".join(gpu_lines(gpus))


def test_gpu_memory_of_an_existing_cluster_comes_from_the_label() -> None:
    cluster = GpuCluster()
    machine = cluster.machine("a10-node", 1)
    cluster.share(machine, 0, "g", pod("some", memory=6000))
    labels = {"nvidia.com/gpu.memory": "24000", "nvidia.com/gpu.product": "NVIDIA-A10"}
    cluster.machines = []
    amounts = {"capacity": {"nvidia.com/gpu": "1"}, "allocatable": {"nvidia.com/gpu": "1"}}
    cluster.nodes = [node("a10-node", labels=labels, status=amounts)]
    (gpu,) = cluster.map().gpus
    assert (gpu.used, gpu.model) == (0.25, "NVIDIA-A10")


def test_gpus_of_a_pod_come_from_its_status_if_the_kubelet_reports_them() -> None:
    reported = pod("one", gpus=1, node="n")
    resource = {"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-x::3", "health": "Healthy"}]}
    reported["status"]["containerStatuses"] = [{"name": "main", "state": {}, "allocatedResourcesStatus": [resource]}]
    amounts = {"capacity": {"nvidia.com/gpu": "2"}, "allocatable": {"nvidia.com/gpu": "2"}}
    gpus = GpuCluster(nodes=[node("n", status=amounts)], pods=[reported]).map()
    assert [(gpu.uuid, names(gpu)) for gpu in gpus.gpus] == [("GPU-x", ["default/one"]), ("", [])]


def test_time_sliced_gpus_are_not_over_committed() -> None:
    labels = {"nvidia.com/gpu.replicas": "4"}
    amounts = {"capacity": {"nvidia.com/gpu": "4"}, "allocatable": {"nvidia.com/gpu": "4"}}
    pods = [pod(f"p{n}", gpus=1, node="n") for n in range(3)]
    (gpu,) = GpuCluster(nodes=[node("n", labels=labels, status=amounts)], pods=pods).map().gpus
    assert (gpu.state, gpu.used, len(gpu.holders)) == (GpuState.SHARED, 0.75, 3)


def test_gpus_that_are_not_allocatable_are_unhealthy() -> None:
    amounts = {"capacity": {"nvidia.com/gpu": "3"}, "allocatable": {"nvidia.com/gpu": "1"}}
    gpus = GpuCluster(nodes=[node("n", status=amounts)], pods=[pod("p", gpus=1, node="n")]).map()
    assert states(gpus) == ["whole", "unhealthy", "unhealthy"]
    assert gpus.largest_free == 0


def test_all_gpus_are_unhealthy_without_a_device_plugin() -> None:
    cluster = GpuCluster()
    machine = cluster.machine("worker", 2)
    cluster.nodes, cluster.machines = [machine.node()], []
    cluster.nodes[0]["status"]["allocatable"] = {"nvidia.com/gpu": "0"}
    world = cluster.world
    assert states(map_of(world, {"worker": machine.evidence()})) == ["unhealthy", "unhealthy"]


def test_unnamed_withheld_gpu_is_not_free() -> None:
    cluster = GpuCluster()
    machine = cluster.machine("worker", 2)
    obj = machine.node()
    obj["status"]["allocatable"] = {"nvidia.com/gpu": "1"}  # the kubelet's record is older than its status
    gpus = map_of(ClusterSnapshot(cluster.world.at, {"Node": (obj,), "Pod": ()}), {"worker": machine.evidence()})
    assert (gpus.nodes[0].withheld, gpus.count(GpuState.FREE), gpus.count(GpuState.UNHEALTHY)) == (1, 1, 1)


def test_pod_with_unknown_gpu_is_listed_beside_the_gpus() -> None:
    cluster = GpuCluster()
    cluster.machine("worker", 1)
    cluster.pods.append(pod("new", gpus=1, node="worker", phase="Pending"))
    cluster.pods.append(pod("newer", fraction="0.5", node="worker", phase="Pending"))
    gpus = cluster.map()
    assert [holder.title for holder in gpus.nodes[0].unplaced] == ["default/new", "default/newer"]
    assert [holder.phase for holder in gpus.nodes[0].unplaced] == ["Starting"] * 2
    assert gpus.largest_free == 0


@pytest.mark.parametrize("change", [{"ready": False}, {"cordoned": True}])
def test_unschedulable_node_has_no_free_share(change: dict[str, bool]) -> None:
    obj = node("n", ready=change.get("ready", True), status={"capacity": {"nvidia.com/gpu": "1"}})
    obj["status"]["allocatable"] = {"nvidia.com/gpu": "1"}
    obj["spec"]["unschedulable"] = change.get("cordoned", False)
    gpus = GpuCluster(nodes=[obj]).map()
    assert (gpus.gpus[0].state, gpus.largest_free) == (GpuState.FREE, 0)


def test_pods_without_gpus_are_left_out() -> None:
    cluster = GpuCluster()
    cluster.machine("worker", 1)
    cluster.pods = [
        pod("done", gpus=1, node="worker", phase="Succeeded"),
        pod("plain", node="worker"),
        pod("believes", fraction="0.5", node="worker", scheduler="default-scheduler"),
        pod("elsewhere", gpus=1, node="gone"),
    ]
    gpus = cluster.map()
    assert (states(gpus), gpus.nodes[0].unplaced, gpus.waiting) == (["free"], (), ())


def test_contradictions_are_noted() -> None:
    cluster = GpuCluster()
    machine = cluster.machine("worker", 3)
    cluster.share(machine, 0, "moved")
    cluster.share(machine, 1, "failed")
    machine.held = {cluster.pods[0]["metadata"]["uid"]: [2]}
    cluster.pods[1]["status"]["phase"] = "Failed"
    notes = cluster.map().notes
    assert len(notes) == 2
    assert "has failed, so nothing holds its GPU: 'kailab up' deletes it" in notes[0]
    assert machine.uuid(0) in notes[1]
    assert machine.uuid(2) in notes[1]


def test_gpu_of_a_new_reservation_pod_comes_from_the_kubelet() -> None:
    cluster = GpuCluster()
    machine = cluster.machine("worker", 1)
    cluster.share(machine, 0, "new")
    del cluster.pods[0]["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"]
    assert cluster.map().gpus[0].reservations  # by the kubelet's record
    machine.held = {}
    gpus = cluster.map()
    assert (states(gpus), len(gpus.notes)) == (["free"], 1)


def test_nodes_are_sorted_by_number() -> None:
    cluster = GpuCluster()
    for name in ("worker10", "worker2", "worker"):
        cluster.machine(name, 1)
    assert [found.name for found in cluster.map().nodes] == ["worker", "worker2", "worker10"]


def test_cluster_without_gpus() -> None:
    gpus = GpuCluster(nodes=[node("a"), node("b")]).map()
    assert (gpus.nodes, gpus.others, gpus.largest_free) == ((), 2, 0)
    assert gpu_lines(gpus) == ("no GPUs on 2 nodes; 0 pods waiting for one",)


def test_every_line_names_its_object() -> None:
    lines = gpu_lines(demo().map())
    assert {line.split()[0] for line in lines[:-1]} == {"node", "gpu", "pod"}
    (train,) = (line for line in lines if "train-0" in line)
    assert train == (
        "pod team-a/train-0: 0.5 on GPU 0 of kailab-demo-worker (GPU-766760b2), Running, tenant my-vcluster, queue test"
    )
    assert any(line.startswith("pod default/big: waits for 2 GPUs, queue test: no nodes") for line in lines)


def test_many_gpus_are_counted_by_state() -> None:
    gpus = many().map()
    counts = {state.value: gpus.count(state) for state in GpuState}
    assert counts == {"free": 39, "shared": 7, "whole": 16, "over-committed": 1, "unhealthy": 1}


def test_devices_outside_the_map_are_reported() -> None:
    gpus = GpuCluster(nodes=[node("n", status={"capacity": {"nvidia.com/mig-1g.5gb": "7"}})]).map()
    assert gpus.notes == ("n has MIG devices, which are not on this map",)
