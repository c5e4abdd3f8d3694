"""GPUs of an existing cluster: whole, in time-slices, MIG devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.engine.step import State
from lab.errors import StepFailed
from lab.gpu import gpu_steps
from lab.gpu.pools import runtime_class
from lab.gpu.present import PresentGpus, describe, gpu_resources
from lab.objects.views import NodeView
from tests.support.builders import node
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.specs import EXISTING, lab_spec

MIG = "nvidia.com/mig-1g.10gb"


def gpu_node(name: str = "a", product: str = "NVIDIA-H100-80GB-HBM3", replicas: int = 1, **amounts: int) -> NodeView:
    """A node; ``amounts`` are its GPU resources: gpu, shared, mig."""
    names = {"gpu": "nvidia.com/gpu", "shared": "nvidia.com/gpu.shared", "mig": MIG}
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.replicas": str(replicas)} if product else {}
    allocatable = {"cpu": "8", **{names[key]: str(number) for key, number in amounts.items()}}
    return NodeView.of(node(name, labels=labels, status={"allocatable": allocatable}))


def test_resources_that_a_node_offers() -> None:
    assert gpu_resources(gpu_node(gpu=8)) == {"nvidia.com/gpu": 8}
    assert gpu_resources(gpu_node(gpu=0, mig=7)) == {MIG: 7}, "mixed MIG: the whole GPUs are not offered"
    assert gpu_resources(gpu_node(shared=16)) == {"nvidia.com/gpu.shared": 16}
    assert gpu_resources(gpu_node()) == {}


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([], ""),
        ([gpu_node()], ""),
        ([gpu_node(gpu=8), gpu_node("b", gpu=8)], "2 nodes × 8 NVIDIA H100 80GB HBM3"),
        ([gpu_node(gpu=1, product="")], "1 node × 1 GPUs"),
        ([gpu_node(gpu=8, product="NVIDIA-L4", replicas=4)], "1 node × 8 NVIDIA L4 in 4 time-slices each"),
        ([gpu_node(shared=16)], "1 node × 16 nvidia.com/gpu.shared"),
        ([gpu_node(gpu=1, mig=7, product="NVIDIA-L4"), gpu_node("b")], f"1 node × 1 NVIDIA L4 and 7 {MIG}"),
        ([gpu_node(gpu=2, product="L4"), gpu_node("b", gpu=1, product="T4")], "1 node × 2 L4, 1 node × 1 T4"),
    ],
)
def test_description(nodes: list[NodeView], text: str) -> None:
    assert describe(nodes) == text


def world_of(runner: FakeRunner, tmp_path: Path, *nodes: dict[str, Any]) -> LabWorld:
    world = LabWorld(lab_spec(cluster=EXISTING), runner, tmp_path)
    world.api.add(*nodes)
    return world


def test_step_only_reads(runner: FakeRunner, tmp_path: Path) -> None:
    world = world_of(runner, tmp_path, node("a", gpus=2), node("b"))
    (step,) = gpu_steps(world.spec)
    assert (step.id, step.needs, step.part_of, step.effects()) == ("gpus", ("network",), "", ())
    seen = step.observe(world.ctx)
    assert (seen.state, seen.detail) == (State.READY, "1 node × 2 GPUs")
    step.undo(world.ctx)
    assert world.log == []


def test_cluster_without_gpus_is_an_error(runner: FakeRunner, tmp_path: Path) -> None:
    world = world_of(runner, tmp_path, node("a"))
    step = PresentGpus(world.spec)
    assert step.observe(world.ctx).state is State.DRIFTED
    with pytest.raises(StepFailed, match="no node of the cluster offers a GPU") as refused:
        step.apply(world.ctx)
    assert "gpu.mode: none" in refused.value.fix
    assert world.log == []


def test_runtime_class_of_gpu_pods() -> None:
    assert runtime_class(lab_spec()) == "nvidia"
    assert runtime_class(lab_spec(gpus="none")) == ""
    spec = lab_spec(cluster=EXISTING)
    assert runtime_class(spec) == "", "the plan finds it in the cluster"
    gpu = spec.gpu.model_copy(update={"runtime_class": "theirs"})
    assert runtime_class(spec.model_copy(update={"gpu": gpu})) == "theirs"
