"""The Deployment that assigns simulated GPUs of an existing cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.engine.step import State
from lab.errors import StepFailed
from lab.gpu.simulated.assigner import GpuAssigner, assigner_image, namespace
from lab.gpu.simulated.devices import gpu_uuid
from lab.kai.names import RESERVATION_APP
from lab.operations.planning import images_of_charts
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.specs import simulated_elsewhere

ONE, TWO = "node-1", "node-2"
SPACE = namespace("demo")


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path) -> LabWorld:
    made = LabWorld(simulated_elsewhere(ONE, TWO, perNode=2), runner, tmp_path)
    made.api.put("Namespace", RESERVATION_APP)
    made.api.after("apply", "Deployment", lambda call: ready(made))
    return made


def ready(world: LabWorld) -> None:
    status = {"replicas": 1, "availableReplicas": 1, "updatedReplicas": 1, "observedGeneration": 1}
    world.api.change("Deployment", "gpu-assigner", SPACE, status=status)


def container(world: LabWorld) -> dict[str, Any]:
    found = world.api.get("Deployment", "gpu-assigner", SPACE) or {}
    (only,) = found["spec"]["template"]["spec"]["containers"]
    return only  # type: ignore[no-any-return]


def test_is_made_seen_and_removed(world: LabWorld) -> None:
    step = GpuAssigner(world.spec)
    assert step.observe(world.ctx).state is State.ABSENT
    step.apply(world.ctx)
    assert step.observe(world.ctx).state is State.READY
    assert container(world)["image"] == "r/kailab:1"
    assert container(world)["args"] == [
        f"--node={name}={gpu_uuid('demo', name, 0)},{gpu_uuid('demo', name, 1)}" for name in (ONE, TWO)
    ]
    role = world.api.get("Role", SPACE, RESERVATION_APP) or {}
    assert role["metadata"]["labels"] == {"kailab": "demo"}
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]}]
    step.undo(world.ctx)
    step.undo(world.ctx)
    assert [world.api.get(kind, SPACE, RESERVATION_APP) for kind in ("Role", "RoleBinding")] == [None, None]
    assert world.api.get("Namespace", SPACE) is None
    assert world.api.get("Namespace", RESERVATION_APP) is not None


def test_changed_nodes_and_a_lost_role_are_seen(world: LabWorld) -> None:
    GpuAssigner(world.spec).apply(world.ctx)
    assert GpuAssigner(simulated_elsewhere(ONE, perNode=2)).observe(world.ctx).diff == ("its args differs",)
    world.api.remove("Role", SPACE, RESERVATION_APP)
    assert GpuAssigner(world.spec).observe(world.ctx).diff == (f"Role {RESERVATION_APP}/{SPACE} is missing",)


def test_objects_of_others_stay(world: LabWorld) -> None:
    world.api.put("Namespace", SPACE, metadata={"labels": {"kailab": "other"}})
    with pytest.raises(StepFailed, match="belongs to lab other"):
        GpuAssigner(world.spec).apply(world.ctx)
    GpuAssigner(world.spec).undo(world.ctx)
    assert world.api.get("Namespace", SPACE) is not None


def test_kai_without_reservations_is_refused(world: LabWorld) -> None:
    world.api.remove("Namespace", RESERVATION_APP)
    with pytest.raises(StepFailed, match="no fractions of GPUs"):
        GpuAssigner(world.spec).apply(world.ctx)


def test_image_is_needed_only_for_fractions() -> None:
    spec = simulated_elsewhere(ONE)
    assert assigner_image(spec) == "r/kailab:1"
    assert "r/kailab:1" in images_of_charts(spec), "the plan asks for it in the registry"
    mirrored = spec.supply.model_copy(update={"mirrors": {"ghcr.io": "mirror.example"}})
    of_mirror = simulated_elsewhere(ONE, image="ghcr.io/org/kailab:1").model_copy(update={"supply": mirrored})
    assert assigner_image(of_mirror) == "mirror.example/org/kailab:1"
    without = spec.kai.model_copy(update={"gpu_sharing": False})
    assert assigner_image(spec.model_copy(update={"kai": without})) == ""
