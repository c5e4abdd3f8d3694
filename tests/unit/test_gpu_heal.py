"""Step gpu-heal: what a restart of the nodes leaves in the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_world import SPEC, Json, World, make_pod, pretend_machine

from lab.engine.events import Notice
from lab.engine.step import State
from lab.parts.gpu import GpuHeal


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    pretend_machine(monkeypatch)
    return World(tmp_path)


def _grouped(name: str, group: str, phase: str = "Running", namespace: str = "default", **more: Any) -> Json:
    return make_pod(
        name, phase, namespace, meta={"labels": {"runai-gpu-group": group}, **more.pop("meta", {})}, **more
    )


def test_a_restart_is_healed_and_told(world: World) -> None:
    owned = {"ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "controller": True}]}
    several = make_pod("two-gpus", meta={"labels": {"runai-gpu-group/g1": "g1", "runai-gpu-group/g2": "g2"}})
    refused = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
    reservations = "kai-resource-reservation"
    world.cluster.objects += [
        _grouped("gpu-reservation-1", "g1", namespace=reservations, **refused),
        _grouped("gpu-reservation-2", "g2", namespace=reservations),
        _grouped("half", "g1", meta=owned),
        _grouped("other-half", "g2"),
        _grouped("done", "g1", "Succeeded"),
        several,
        make_pod("whole", **refused),
        make_pod("evicted", "Failed", reason="Evicted"),
    ]
    step = GpuHeal(SPEC)
    assert step.observe(world.ctx).state is State.DRIFTED
    step.apply(world.ctx)
    step.verify(world.ctx)
    assert world.cluster.deleted == [
        f"{reservations}/gpu-reservation-1",
        "default/half",
        "default/two-gpus",
        "default/whole",
    ]
    assert step.observe(world.ctx).state is State.READY
    told = [event.text for event in world.events if isinstance(event, Notice)]
    assert len(told) == 1
    assert "1 failed reservation pod, 2 fraction pods of their GPU groups, 1 pod that a kubelet" in told[0]
    assert told[0].endswith("nothing makes these again: default/two-gpus, default/whole")


def test_a_lab_in_order_is_left_alone(world: World) -> None:
    world.cluster.objects += [
        _grouped("gpu-reservation-1", "g1", namespace="kai-resource-reservation"),
        _grouped("half", "g1"),
    ]
    assert GpuHeal(SPEC).observe(world.ctx).state is State.READY
    GpuHeal(SPEC).apply(world.ctx)
    assert world.cluster.deleted == []
    assert not [event for event in world.events if isinstance(event, Notice)]
