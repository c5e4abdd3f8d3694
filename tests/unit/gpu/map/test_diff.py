"""Changes between two GPU maps, as text."""

from __future__ import annotations

import itertools
import json

from lab.gpu.map.diff import GpuChange, changes
from lab.gpu.map.model import GpuMap
from lab.serialization import to_json
from tests.support.gpu_map_world import GpuCluster, pod


def change_texts(before: GpuMap, after: GpuMap) -> list[tuple[str, str]]:
    return [(change.change, change.text) for change in changes(before, after)]


def cluster(*pods: dict[str, object]) -> GpuCluster:
    gpu_cluster = GpuCluster(pods=list(pods))
    gpu_cluster.machine("worker", 2)
    return gpu_cluster


def test_equal_maps_have_no_changes() -> None:
    gpu_cluster = cluster(pod("p", gpus=1, phase="Pending", why="no room"))
    assert changes(gpu_cluster.map(), gpu_cluster.map()) == ()


def test_changes_over_the_life_of_a_whole_gpu_pod() -> None:
    gpu_cluster = cluster()
    machine = gpu_cluster.machines[0]
    uuid = machine.uuid(1)
    maps = [gpu_cluster.map()]
    gpu_cluster.pods = [pod("p", gpus=1, phase="Pending")]
    maps.append(gpu_cluster.map())
    gpu_cluster.pods = [pod("p", gpus=1, phase="Pending", why="no room")]
    maps.append(gpu_cluster.map())
    gpu_cluster.pods = [pod("p", gpus=1, phase="Pending", node="worker")]
    maps.append(gpu_cluster.map())
    machine.held = {"/default/p": [1]}
    maps.append(gpu_cluster.map())
    gpu_cluster.pods = [pod("p", gpus=1, node="worker")]
    maps.append(gpu_cluster.map())
    gpu_cluster.pods[0]["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    maps.append(gpu_cluster.map())
    gpu_cluster.pods = []
    maps.append(gpu_cluster.map())
    where = f"GPU 1 of worker ({uuid[:12]})"
    assert [change_texts(*pair) for pair in itertools.pairwise(maps)] == [
        [("waits", "pod default/p waits for 1 GPU: not decided yet")],
        [("waits", "pod default/p waits for 1 GPU: no room")],
        [("bound", "pod default/p is bound to worker with 1 GPU")],
        [("starts", f"pod default/p starts on {where} with 1 GPU")],
        [("runs", f"pod default/p runs on {where} with 1 GPU")],
        [("other", f"pod default/p is Deleting on {where} with 1 GPU")],
        [("gone", "pod default/p is gone")],
    ]


def test_shared_gpu_is_reserved_first_and_released_first() -> None:
    gpu_cluster = cluster()
    empty = gpu_cluster.map()
    gpu_cluster.share(gpu_cluster.machines[0], 0, "g", pod("half", tenant="ml", fraction="0.5"))
    shared = gpu_cluster.map()
    begins, ends = changes(empty, shared), changes(shared, empty)
    assert [change.change for change in begins] == ["reserved", "runs"]
    assert [change.change for change in ends] == ["released", "gone"]
    assert (begins[1].tenant, begins[1].queue, begins[1].gpus) == ("ml", "test", (gpu_cluster.machines[0].uuid(0),))


def test_unhealthy_gpu_changes_gpu_and_node() -> None:
    gpu_cluster = cluster()
    healthy = gpu_cluster.map()
    gpu_cluster.machines[0].unhealthy = {0: "xid=48"}
    unhealthy = gpu_cluster.map()
    name = f"GPU 0 of worker ({gpu_cluster.machines[0].uuid(0)[:12]})"
    assert change_texts(healthy, unhealthy) == [
        ("node", "node worker offers 1 of 2 GPUs"),
        ("gpu", f"{name} is unhealthy (XID 48, double-bit ECC error)"),
    ]
    assert change_texts(unhealthy, healthy)[1] == ("gpu", f"{name} is free")


def test_added_and_removed_nodes_are_changes() -> None:
    gpu_cluster = cluster()
    before = gpu_cluster.map()
    gpu_cluster.machine("worker2", 4)
    after = gpu_cluster.map()
    assert change_texts(before, after) == [("node", "node worker2 offers 4 of 4 GPUs")]
    assert change_texts(after, before) == [("node", "node worker2 has no GPUs any more")]


def test_change_as_json() -> None:
    change = GpuChange("runs", "default/p", "pod default/p runs", "ml", "test", ("GPU-a",))
    assert json.loads(json.dumps(to_json(change))) == {
        "change": "runs",
        "about": "default/p",
        "text": "pod default/p runs",
        "tenant": "ml",
        "queue": "test",
        "gpus": ["GPU-a"],
    }
