"""Requests of pods, and free resources of nodes."""

from __future__ import annotations

from typing import Any

import pytest

from lab.objects.pod_requests import PodRequests
from lab.objects.workload import ClaimView, WorkloadView
from lab.snapshot.node_info import FreeGpus, node_infos
from tests.support.explain_world import GPU, GROUP, UUID, Scene, node, pod, request, reservation


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "c", "resources": resources}


def requests(spec: dict[str, Any], **annotations: str) -> PodRequests:
    return PodRequests.of(
        {"metadata": {"annotations": {k.replace("_", "-"): v for k, v in annotations.items()}}, "spec": spec}
    )


def test_requests_are_summed_and_default_to_limits() -> None:
    spec = {
        "containers": [
            container(requests={"cpu": "250m", "memory": "1Gi"}),
            container(limits={"cpu": "1", "nvidia.com/gpu": 2, "nvidia.com/mig-1g.5gb": 1, "example.com/x": "3"}),
        ]
    }
    total = requests(spec)
    assert (total.cpu, total.memory, total.gpus, total.devices) == (1250, 2**30, 2, 2)
    assert (total.mig, total.others) == ({"nvidia.com/mig-1g.5gb": 1}, {"example.com/x": 3})
    assert total.wants_gpu
    assert not total.shares_gpu
    assert total.in_words().startswith("2 whole GPUs, 1 nvidia.com/mig-1g.5gb, 1250m cpu, 1024 MiB memory")


def test_init_containers_count_by_their_peak_and_sidecars_add_up() -> None:
    spec = {
        "initContainers": [
            {**container(requests={"cpu": "1"}), "restartPolicy": "Always"},
            container(requests={"cpu": "5"}),
        ],
        "containers": [container(requests={"cpu": "2"})],
        "overhead": {"cpu": "100m"},
    }
    assert requests(spec).cpu == 6100
    assert requests({**spec, "initContainers": spec["initContainers"][:1]}).cpu == 3100


@pytest.mark.parametrize(
    ("annotations", "text", "gpus"),
    [
        ({"gpu_fraction": "0.5"}, "0.5 of 1 GPU", 0.5),
        ({"gpu_fraction": "0.25", "gpu_fraction_num_devices": "2"}, "0.25 of 2 GPUs", 0.5),
        ({"gpu_memory": "2000"}, "2000 MiB of 1 GPU", 0.0),
        ({"gpu_memory": "2Gi"}, "nothing", 0.0),
        ({}, "nothing", 0.0),
    ],
)
def test_fractions_and_memory_requests(annotations: dict[str, str], text: str, gpus: float) -> None:
    found = requests({}, **annotations)
    assert (found.in_words(), found.gpu_total, found.shares_gpu) == (text, gpus, text != "nothing")


def test_invalid_quantity_counts_as_zero() -> None:
    assert requests({"containers": [container(requests={"cpu": "lots"})]}).cpu == 0


def test_node_info_has_requested_and_free_resources() -> None:
    scene = Scene().add(reservation())
    scene.add(pod("half", node="worker-1", ready=True, fraction=0.5, labels={"runai-gpu-group": GROUP}))
    scene.add(pod("mib", node="worker-1", ready=True, memory=1530, labels={"runai-gpu-group": GROUP}))
    scene.add(pod("whole", node="worker-1", ready=True, gpus=1), pod("done", node="worker-1", phase="Failed", gpus=1))
    scene.add(node("worker-2", gpus=1, capacity=2))
    _, first, second = node_infos(scene.world)
    assert (first.node.name, first.requested[GPU], first.gpus_free) == ("worker-1", 2, 0)
    (gpu,) = first.shared
    # 1530 of 15300 MiB: KAI takes the label rounded down to hundreds, and parts rounded up to hundredths.
    assert (gpu.uuid, gpu.used, gpu.free) == (UUID, 0.6, 0.4)
    assert [pod.view.name for pod in gpu.reservations] == ["gpu-reservation-1"]
    assert gpu.pod_keys == ("team/half", "team/mib")
    assert first.holders == (("team/whole", 1),)
    assert [(first.allocatable[name], first.requested[name]) for name in ("cpu", "pods")] == [(8000, 400), (110, 4)]
    assert first.free("cpu") == 7600
    assert (second.capacity_gpus, second.node.gpus, second.gpus_free, second.gpu_memory) == (2, 1, 1, 15300)


def test_pod_being_bound_counts_on_its_node() -> None:
    scene = Scene()
    scene.pending(fraction=0.5)
    scene.add(request(selectedGPUGroups=["new"]))
    info = node_infos(scene.world)[1]
    (gpu,) = info.shared
    assert (gpu.name, gpu.reservations, gpu.free, info.gpus_free) == ("new", (), 0.5, 1)


def test_free_gpus_exclude_unschedulable_nodes() -> None:
    scene = Scene().add(reservation(), node("worker-2", cordoned=True), node("worker-3", gpus=4, ready="False"))
    half = {"node": "worker-1", "ready": True, "labels": {"runai-gpu-group": GROUP}}
    scene.add(pod("half", fraction=0.5, **half))
    assert FreeGpus.of(node_infos(scene.world)) == FreeGpus(1, 0.5)
    scene.add(pod("whole", node="worker-1", ready=True, gpus=1), pod("mib", memory=15300, **half))
    assert FreeGpus.of(node_infos(scene.world)) == FreeGpus(0, 0.0)


def test_memory_request_on_a_gpu_of_unknown_size_leaves_nothing_free() -> None:
    scene = Scene().add(reservation())
    del next(obj for obj in scene.objects["Node"] if obj["metadata"]["name"] == "worker-1")["metadata"]["labels"][
        "nvidia.com/gpu.memory"
    ]
    scene.add(pod("mib", memory=200, node="worker-1", ready=True, labels={"runai-gpu-group": GROUP}))
    (gpu,) = node_infos(scene.world)[1].shared
    assert (gpu.used, gpu.free) == (2.0, 0.0)


@pytest.mark.parametrize(
    ("obj", "counts"),
    [
        ({"kind": "Deployment", "spec": {"replicas": 3}, "status": {"replicas": 1}}, (3, 1)),
        ({"kind": "StatefulSet", "spec": {}, "status": {}}, (1, 0)),
        ({"kind": "DaemonSet", "status": {"desiredNumberScheduled": 2, "currentNumberScheduled": 1}}, (2, 1)),
        (
            {"kind": "Job", "spec": {"completions": 4, "parallelism": 2}, "status": {"succeeded": 3, "active": 1}},
            (1, 1),
        ),
        ({"kind": "Job", "spec": {}, "status": {"succeeded": 1}}, (0, 0)),
    ],
)
def test_workload_view_counts_wanted_and_existing_pods(obj: dict[str, Any], counts: tuple[int, int]) -> None:
    view = WorkloadView.of({"metadata": {"name": "w", "namespace": "n"}, **obj})
    assert (view.want, view.have) == counts
    assert view.title == f"{obj['kind']} n/w"


def test_claim_view() -> None:
    claim = ClaimView.of({"metadata": {"name": "c", "namespace": "n"}, "spec": {}, "status": {"phase": "Lost"}})
    assert (claim.phase, claim.storage_class) == ("Lost", None)
