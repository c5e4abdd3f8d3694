"""What changed between two maps, in sentences."""

from __future__ import annotations

import itertools
import json

from lab.gpu.map.diff import GpuChange, changes
from lab.gpu.map.model import GpuMap
from lab.serialization import to_json
from tests.support.gpu_map_world import GpuCluster, pod


def told(before: GpuMap, after: GpuMap) -> list[tuple[str, str]]:
    return [(change.change, change.text) for change in changes(before, after)]


def cluster(*pods: dict[str, object]) -> GpuCluster:
    made = GpuCluster(pods=list(pods))
    made.machine("worker", 2)
    return made


def test_same_map_tells_nothing() -> None:
    made = cluster(pod("p", gpus=1, phase="Pending", why="no room"))
    assert changes(made.map(), made.map()) == ()


def test_life_of_a_pod_with_a_whole_gpu() -> None:
    made = cluster()
    machine = made.machines[0]
    uuid = machine.uuid(1)
    maps = [made.map()]
    made.pods = [pod("p", gpus=1, phase="Pending")]
    maps.append(made.map())
    made.pods = [pod("p", gpus=1, phase="Pending", why="no room")]
    maps.append(made.map())
    made.pods = [pod("p", gpus=1, phase="Pending", node="worker")]
    maps.append(made.map())
    machine.held = {"/default/p": [1]}
    maps.append(made.map())
    made.pods = [pod("p", gpus=1, node="worker")]
    maps.append(made.map())
    made.pods[0]["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    maps.append(made.map())
    made.pods = []
    maps.append(made.map())
    where = f"GPU 1 of worker ({uuid[:12]})"
    assert [told(*pair) for pair in itertools.pairwise(maps)] == [
        [("waits", "pod default/p waits for 1 GPU: not decided yet")],
        [("waits", "pod default/p waits for 1 GPU: no room")],
        [("bound", "pod default/p is bound to worker with 1 GPU")],
        [("starts", f"pod default/p starts on {where} with 1 GPU")],
        [("runs", f"pod default/p runs on {where} with 1 GPU")],
        [("other", f"pod default/p is Deleting on {where} with 1 GPU")],
        [("gone", "pod default/p is gone")],
    ]


def test_shared_gpu_is_reserved_before_its_pod_runs_and_released_after() -> None:
    made = cluster()
    empty = made.map()
    made.share(made.machines[0], 0, "g", pod("half", tenant="ml", fraction="0.5"))
    shared = made.map()
    begins, ends = changes(empty, shared), changes(shared, empty)
    assert [change.change for change in begins] == ["reserved", "runs"]
    assert [change.change for change in ends] == ["released", "gone"]
    assert (begins[1].tenant, begins[1].queue, begins[1].gpus) == ("ml", "test", (made.machines[0].uuid(0),))


def test_broken_gpu_and_its_node() -> None:
    made = cluster()
    well = made.map()
    made.machines[0].unhealthy = {0: "xid=48"}
    sick = made.map()
    name = f"GPU 0 of worker ({made.machines[0].uuid(0)[:12]})"
    assert told(well, sick) == [
        ("node", "node worker offers 1 of 2 GPUs"),
        ("gpu", f"{name} is unhealthy (XID 48, double-bit ECC error)"),
    ]
    assert told(sick, well)[1] == ("gpu", f"{name} is free")


def test_nodes_come_and_go() -> None:
    made = cluster()
    before = made.map()
    made.machine("worker2", 4)
    after = made.map()
    assert told(before, after) == [("node", "node worker2 offers 4 of 4 GPUs")]
    assert told(after, before) == [("node", "node worker2 has no GPUs any more")]


def test_change_as_plain_data() -> None:
    change = GpuChange("runs", "default/p", "pod default/p runs", "ml", "test", ("GPU-a",))
    assert json.loads(json.dumps(to_json(change))) == {
        "change": "runs",
        "about": "default/p",
        "text": "pod default/p runs",
        "tenant": "ml",
        "queue": "test",
        "gpus": ["GPU-a"],
    }
