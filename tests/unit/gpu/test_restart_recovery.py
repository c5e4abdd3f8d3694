"""Step gpu-heal: what a restart of the nodes leaves in the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.engine.events import Notice
from lab.engine.step import State
from lab.gpu import GpuHeal
from tests.support.gpu_world import SPEC, GpuWorld, Json, make_pod, pretend_machine


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GpuWorld:
    pretend_machine(monkeypatch)
    return GpuWorld(tmp_path)


def _grouped(name: str, group: str, phase: str = "Running", namespace: str = "default", **more: Any) -> Json:
    return make_pod(name, phase, namespace, meta={"labels": {"runai-gpu-group": group}, **more.pop("meta", {})}, **more)


def test_a_restart_is_healed_and_told(world: GpuWorld) -> None:
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
    told = [event.text for event in world.events if isinstance(event, Notice)]
    assert len(told) == 1
    assert "1 failed reservation pod, 2 fraction pods of their GPU groups, 1 pod rejected by the kubelet" in told[0]
    assert told[0].endswith("no controller recreates default/two-gpus, default/whole")


def test_pods_of_a_tenants_own_kai_are_healed_by_their_copies(world: GpuWorld) -> None:
    def copy(name: str, inside: str, phase: str = "Running", owner: str = "", **more: Any) -> Json:
        labels = {"runai-gpu-group": "g1", "vcluster.loft.sh/managed-by": "ml", "vcluster.loft.sh/namespace": inside}
        notes = {"vcluster.loft.sh/object-name": name, "vcluster.loft.sh/object-namespace": inside}
        notes |= {"vcluster.loft.sh/owner-set-kind": owner} if owner else {}
        return make_pod(name, phase, "vcluster-ml", meta={"labels": labels, "annotations": notes}, **more)

    world.api.add(
        copy("gpu-reservation-1-x", "kai-resource-reservation", "Failed", reason="UnexpectedAdmissionError"),
        copy("half-x", "default"),
        copy("made-again-x", "default", owner="ReplicaSet"),
    )
    GpuHeal(SPEC).apply(world.ctx)
    assert world.deleted == [f"vcluster-ml/{name}-x" for name in ("gpu-reservation-1", "half", "made-again")]
    (told,) = [event.text for event in world.events if isinstance(event, Notice)]
    assert told.startswith(
        "deleted pods that lost their GPU in a restart: 1 failed reservation pod, 2 fraction pods of"
    )
    assert told.endswith("no controller recreates vcluster-ml/half-x")


def test_a_lab_in_order_is_left_alone(world: GpuWorld) -> None:
    world.api.add(_grouped("gpu-reservation-1", "g1", namespace="kai-resource-reservation"), _grouped("half", "g1"))
    assert GpuHeal(SPEC).observe(world.ctx).state is State.READY
    GpuHeal(SPEC).apply(world.ctx)
    assert world.deleted == []
    assert not [event for event in world.events if isinstance(event, Notice)]
