"""Allocation of GPUs to pods."""

from __future__ import annotations

from typing import Any

import pytest

from lab.snapshot.gpu_allocation import GpuAllocation
from lab.snapshot.node_info import node_infos
from lab.snapshot.pod_info import GpuRole, PodInfo
from tests.support.explain_world import GROUP, UUID, Scene, pod, request, reservation
from tests.support.invariants_world import copy_of

SHARE = {"node": "worker-1", "ready": True, "fraction": 0.5}


def sharing(name: str, group: str = GROUP) -> dict[str, Any]:
    return pod(name, labels={"runai-gpu-group": group}, **SHARE)


@pytest.mark.parametrize(
    ("obj", "role"),
    [
        (reservation(), GpuRole.RESERVATION),
        (reservation(phase="Failed"), GpuRole.FAILED_RESERVATION),
        (reservation(phase="Succeeded"), None),
        (copy_of(reservation(), "ml"), GpuRole.RESERVATION),
        (pod(gpus=1, node="worker-1"), GpuRole.WHOLE),
        (pod(gpus=1, node="worker-1", phase="Succeeded"), None),
        (sharing("half"), GpuRole.SHARED),
        (pod(fraction=0.5), GpuRole.WAITING),
        (pod(fraction=0.5, scheduler="default-scheduler"), None),
        (pod(), None),
    ],
)
def test_gpu_role_of_pods(obj: dict[str, Any], role: GpuRole | None) -> None:
    assert PodInfo.of(obj).gpu_role is role


def test_gpus_requested_by_a_pod() -> None:
    assert PodInfo.of(pod(gpus=2)).gpus(None) == 2
    several = PodInfo.of(pod(fraction=0.25, annotations={"gpu-fraction-num-devices": "2"}))
    assert (several.share(None), several.gpus(None)) == (0.25, 0.5)
    memory = PodInfo.of(pod(memory=4000))
    assert (memory.share(None), memory.gpus(None)) == (None, 0.0)
    assert (memory.share(16000), memory.gpus(16000)) == (0.25, 0.25)


def test_groups_with_reservation_pods_on_one_gpu_share_it() -> None:
    second = reservation("gpu-reservation-2", labels={"app": "kai-resource-reservation", "runai-gpu-group": "other"})
    scene = Scene().add(reservation(), second, sharing("a"), sharing("b", "other"))
    (gpu,) = GpuAllocation.of(scene.world).shared
    assert (gpu.uuid, gpu.groups, gpu.used) == (UUID, tuple(sorted((GROUP, "other"))), 1.0)
    assert gpu.pod_keys == ("team/a", "team/b")
    second["metadata"]["deletionTimestamp"] = "now"
    assert [gpu.used for gpu in GpuAllocation.of(scene.world).shared] == [0.5, 0.5]


def test_pod_being_bound_is_assumed_on_its_node() -> None:
    scene = Scene()
    scene.pending(fraction=0.5)
    scene.add(request(selectedGPUGroups=["new"]))
    (found,) = GpuAllocation.of(scene.world).by_role(GpuRole.SHARED)
    assert (found.view.node, found.view.gpu_groups) == ("worker-1", ("new",))


def test_reservation_pod_of_a_tenant_counts_once() -> None:
    scene = Scene().add(copy_of(reservation(), "ml"), copy_of(sharing("half"), "ml"))
    info = node_infos(scene.world)[1]
    (gpu,) = info.shared
    assert (gpu.uuid, gpu.free, info.gpus_free, info.holders) == (UUID, 0.5, 1, ())
