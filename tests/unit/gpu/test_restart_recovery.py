"""Step gpu-heal: pods that lost their GPU in a restart of the nodes."""

from __future__ import annotations

from typing import Any

from lab.engine.events import Notice
from lab.engine.step import State
from lab.gpu import GpuHeal
from tests.support.gpu_world import SPEC, GpuWorld, Json, make_pod


def _grouped(name: str, group: str, phase: str = "Running", namespace: str = "default", **more: Any) -> Json:
    return make_pod(name, phase, namespace, meta={"labels": {"runai-gpu-group": group}, **more.pop("meta", {})}, **more)


def test_pods_without_gpus_after_a_restart_are_deleted_and_reported(world: GpuWorld) -> None:
    owned = {"ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "controller": True}]}
    several = make_pod("two-gpus", meta={"labels": {"runai-gpu-group/g1": "g1", "runai-gpu-group/g2": "g2"}})
    refused = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
    reservations = "kai-resource-reservation"
    world.api.add(
        _grouped("gpu-reservation-1", "g1", namespace=reservations, **refused),
        _grouped("gpu-reservation-2", "g2", namespace=reservations),
        _grouped("half", "g1", meta=owned),
        _grouped("other-half", "g2"),
        _grouped("done", "g1", "Succeeded"),
        several,
        make_pod("whole", **refused),
        make_pod("evicted", "Failed", reason="Evicted"),
    )
    step = GpuHeal(SPEC)
    assert step.observe(world.ctx).state is State.DRIFTED
    step.apply(world.ctx)
    step.verify(world.ctx)
    assert world.deleted == [f"{reservations}/gpu-reservation-1", "default/half", "default/two-gpus", "default/whole"]
    assert step.observe(world.ctx).state is State.READY
    notices = [event.text for event in world.events if isinstance(event, Notice)]
    assert len(notices) == 1
    assert "1 failed reservation pod, 2 fraction pods of their GPU groups, 1 pod rejected by the kubelet" in notices[0]
    assert notices[0].endswith("no controller recreates default/two-gpus, default/whole")


def test_pods_of_own_kai_tenants_are_deleted_by_their_synced_pods(world: GpuWorld) -> None:
    def synced(name: str, inside: str, phase: str = "Running", owner: str = "", **more: Any) -> Json:
        labels = {"runai-gpu-group": "g1", "vcluster.loft.sh/managed-by": "ml", "vcluster.loft.sh/namespace": inside}
        notes = {"vcluster.loft.sh/object-name": name, "vcluster.loft.sh/object-namespace": inside}
        notes |= {"vcluster.loft.sh/owner-set-kind": owner} if owner else {}
        return make_pod(name, phase, "vcluster-ml", meta={"labels": labels, "annotations": notes}, **more)

    world.api.add(
        synced("gpu-reservation-1-x", "kai-resource-reservation", "Failed", reason="UnexpectedAdmissionError"),
        synced("half-x", "default"),
        synced("made-again-x", "default", owner="ReplicaSet"),
    )
    GpuHeal(SPEC).apply(world.ctx)
    assert world.deleted == [f"vcluster-ml/{name}-x" for name in ("gpu-reservation-1", "half", "made-again")]
    (notice,) = [event.text for event in world.events if isinstance(event, Notice)]
    assert notice.startswith(
        "deleted pods that lost their GPU in a restart: 1 failed reservation pod, 2 fraction pods of"
    )
    assert notice.endswith("no controller recreates vcluster-ml/half-x")


def test_healthy_lab_is_not_changed(world: GpuWorld) -> None:
    world.api.add(_grouped("gpu-reservation-1", "g1", namespace="kai-resource-reservation"), _grouped("half", "g1"))
    assert GpuHeal(SPEC).observe(world.ctx).state is State.READY
    GpuHeal(SPEC).apply(world.ctx)
    assert world.deleted == []
    assert not [event for event in world.events if isinstance(event, Notice)]
