"""Simulated GPUs of nodes of an existing cluster: what they get, who is refused, and that they are as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.engine.step import State
from lab.errors import ApiFailed, LabError, StepFailed
from lab.gpu import gpu_steps
from lab.gpu.pools import SIMULATED_LABEL, runtime_class
from lab.gpu.simulated.named_nodes import CLAIM, NamedGpuNodes, refuse_unfit_nodes
from lab.kai.names import GPU_COUNT_LABEL, GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL, GPU_RESOURCE
from lab.kube.access_review import Permission
from tests.support.builders import node, pod
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.specs import simulated_elsewhere

ONE, TWO, THREE = "node-1", "node-2", "node-3"
LABELS = {
    SIMULATED_LABEL: "demo",
    "kailab": "demo",
    GPU_COUNT_LABEL: "4",
    GPU_MEMORY_LABEL: "81559",
    GPU_PRODUCT_LABEL: "NVIDIA-H100-80GB-HBM3",
}
GPUS = {GPU_RESOURCE: "4"}


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path) -> LabWorld:
    """Three nodes without GPUs."""
    made = LabWorld(simulated_elsewhere(ONE, TWO), runner, tmp_path)
    made.api.add(
        *(node(name, labels={"theirs": "yes"}, status={"capacity": {"cpu": "8"}}) for name in (ONE, TWO, THREE))
    )
    return made


@pytest.fixture
def step(world: LabWorld) -> NamedGpuNodes:
    return NamedGpuNodes(world.spec)


def state_of(world: LabWorld, name: str) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    found = world.api.get("Node", name) or {}
    status = found["status"]
    return found["metadata"]["labels"], status.get("capacity", {}), status.get("allocatable", {})


def test_steps_need_no_runtime_class() -> None:
    spec = simulated_elsewhere(ONE)
    assert [step.id for step in gpu_steps(spec)] == ["gpu-nodes", "gpu-assigner"]
    assert [step.id for step in gpu_steps(spec.model_copy(update={"scheduler": "default"}))] == ["gpu-nodes"]
    assert runtime_class(spec) == ""


def test_named_nodes_report_gpus_and_others_do_not(world: LabWorld, step: NamedGpuNodes) -> None:
    assert step.observe(world.ctx).state is State.ABSENT
    untouched = state_of(world, THREE)
    step.apply(world.ctx)
    step.verify(world.ctx)
    for name in (ONE, TWO):
        labels, capacity, allocatable = state_of(world, name)
        assert labels == {"theirs": "yes", **LABELS}
        assert (capacity, allocatable) == ({"cpu": "8", **GPUS}, GPUS)
    assert state_of(world, THREE) == untouched
    assert world.owned(CLAIM) == [ONE, TWO]
    seen = step.observe(world.ctx)
    assert (seen.state, seen.detail) == (State.READY, "2 nodes × 4 NVIDIA H100 80GB HBM3")


def test_removal_leaves_nodes_as_they_were(world: LabWorld, step: NamedGpuNodes) -> None:
    before = [state_of(world, name) for name in (ONE, TWO, THREE)]
    step.apply(world.ctx)
    assert step.remains(world.ctx) == (f"simulated GPUs of node {ONE}", f"simulated GPUs of node {TWO}")
    step.undo(world.ctx)
    step.undo(world.ctx)
    assert [state_of(world, name) for name in (ONE, TWO, THREE)] == before
    assert step.remains(world.ctx) == ()
    assert world.owned(CLAIM) == []


def test_removal_that_was_killed_is_finished(world: LabWorld, step: NamedGpuNodes) -> None:
    step.apply(world.ctx)
    world.api.fail("patch", "Node", ApiFailed("killed"), name=TWO)
    with pytest.raises(ApiFailed, match="killed"):
        step.undo(world.ctx)
    assert step.remains(world.ctx) == (f"simulated GPUs of node {TWO}",)
    step.undo(world.ctx)
    assert state_of(world, TWO) == ({"theirs": "yes"}, {"cpu": "8"}, {})


def test_pods_of_others_keep_their_gpus(world: LabWorld, step: NamedGpuNodes) -> None:
    step.apply(world.ctx)
    gpu = {"resources": {"requests": {GPU_RESOURCE: "1"}, "limits": {GPU_RESOURCE: "1"}}}
    world.api.put("Namespace", "t-1", metadata={"labels": {"kailab": "demo"}})
    world.api.add(pod("mine", "t-1", node=ONE, container=gpu), pod("theirs", "shop", node=ONE, container=gpu))
    with pytest.raises(StepFailed, match=f"hold simulated GPUs of node {ONE}") as refused:
        step.undo(world.ctx)
    assert list(refused.value.evidence) == ["pod shop/theirs"]
    assert state_of(world, ONE)[1] == {"cpu": "8", **GPUS}
    world.api.remove("Pod", "theirs", "shop")
    step.undo(world.ctx)
    assert step.remains(world.ctx) == ()


@pytest.mark.parametrize("lost", ["label", "status"])
def test_change_of_others_is_seen_and_repaired(world: LabWorld, step: NamedGpuNodes, lost: str) -> None:
    step.apply(world.ctx)
    if lost == "label":
        world.api.cluster.patch("Node", ONE, {"metadata": {"labels": {GPU_MEMORY_LABEL: None}}})
    else:  # as after a restart of a kubelet that forgets them
        world.api.cluster.patch("Node", ONE, {"status": {"capacity": {GPU_RESOURCE: "0"}}}, subresource="status")
    seen = step.observe(world.ctx)
    assert seen.state is State.DRIFTED
    assert seen.diff[0].startswith(f"{ONE}: {'label nvidia.com/gpu.memory' if lost == 'label' else '0 GPUs capacity'}")
    step.apply(world.ctx)
    assert step.observe(world.ctx).state is State.READY


def test_node_that_the_file_no_longer_names_is_released(world: LabWorld, step: NamedGpuNodes) -> None:
    step.apply(world.ctx)
    fewer = NamedGpuNodes(simulated_elsewhere(ONE))
    assert fewer.observe(world.ctx).diff == (f"{TWO}: no longer in the lab file",)
    fewer.apply(world.ctx)
    assert state_of(world, TWO) == ({"theirs": "yes"}, {"cpu": "8"}, {})
    assert fewer.observe(world.ctx).state is State.READY


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"status": {"capacity": {GPU_RESOURCE: "0"}}}, f"node {ONE} has {GPU_RESOURCE} already"),
        ({"labels": {GPU_MEMORY_LABEL: "1"}}, f"node {ONE} has label {GPU_MEMORY_LABEL} already"),
        ({"labels": {SIMULATED_LABEL: "other"}}, f"node {ONE} has simulated GPUs of lab other"),
    ],
)
def test_node_with_gpus_of_others_is_refused(
    world: LabWorld, step: NamedGpuNodes, changed: dict[str, Any], why: str
) -> None:
    world.api.add(node(ONE, **changed))
    with pytest.raises(LabError, match=why):
        step.apply(world.ctx)
    assert not world.api.calls_of("patch")


def test_gpus_elsewhere_are_refused_unless_the_cluster_is_the_labs_alone(world: LabWorld) -> None:
    """Pods of others that wait for a GPU would get a simulated one."""
    world.api.add(node(THREE, gpus=8))
    with pytest.raises(LabError, match=f"node {THREE} offers 8 {GPU_RESOURCE}, which are not simulated"):
        refuse_unfit_nodes(world.spec, world.ctx)
    refuse_unfit_nodes(simulated_elsewhere(ONE, exclusive=True), world.ctx)
    world.api.add(node(THREE, gpus=8, labels={SIMULATED_LABEL: "other"}))
    refuse_unfit_nodes(world.spec, world.ctx)


def test_unknown_node_is_named(world: LabWorld) -> None:
    with pytest.raises(LabError, match="node gone does not exist"):
        refuse_unfit_nodes(simulated_elsewhere("gone", ONE), world.ctx)


def test_permissions(step: NamedGpuNodes) -> None:
    assert set(step.permissions()) == {
        Permission("patch", "", kind, name=name) for kind in ("nodes", "nodes/status") for name in (ONE, TWO)
    }
