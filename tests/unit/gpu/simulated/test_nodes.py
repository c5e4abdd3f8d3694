"""The GPU steps of a lab, and step gpu-nodes against fake nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.config import LabSpec
from lab.engine.step import State
from lab.errors import LabError, StepFailed
from lab.gpu import GpuNodes, gpu_steps
from lab.gpu.simulated.node_files import HOME
from tests.support.gpu_world import SPEC, WORKERS, GpuWorld, Json, pretend_machine, wanted


def test_steps_and_their_needs() -> None:
    steps = gpu_steps(SPEC)
    assert {step.id: step.needs for step in steps} == {
        "gpu-nodes": ("cluster",),
        "gpu-plugin": ("gpu-nodes", "network"),
        "gpu-labels": ("gpu-plugin",),
        "gpu-heal": ("gpu-plugin",),
    }
    effects = " ".join(effect.what for step in steps for effect in step.effects())
    assert "2 simulated GPUs (NVIDIA A100-SXM4-40GB, 40960 MiB) on each of 2 workers" in effects
    assert not [effect for step in steps for effect in step.effects() if effect.where == "host"]


@pytest.mark.parametrize("gpu", [{"mode": "none"}, {"mode": "simulated", "perNode": 0}])
def test_lab_without_gpus_has_no_gpu_steps(gpu: Json) -> None:
    assert gpu_steps(LabSpec.model_validate({"gpu": gpu})) == []


def test_untouched_nodes_are_absent(world: GpuWorld) -> None:
    assert GpuNodes(SPEC).observe(world.ctx).state is State.ABSENT


def test_apply_installs_and_labels_each_worker(world: GpuWorld) -> None:
    for name in WORKERS:
        world.nodes[name].offers = [wanted(name)]
    step = GpuNodes(SPEC)
    step.apply(world.ctx)
    step.verify(world.ctx)
    assert {name: node.installs for name, node in world.nodes.items()} == {
        "kailab-demo-control-plane": 0,
        **dict.fromkeys(WORKERS, 1),
    }
    labelled = [o["metadata"]["name"] for o in world.api.cluster.list("Node", labels="nvidia.com/gpu.present=true")]
    assert labelled == list(WORKERS)
    assert step.observe(world.ctx).state is State.READY


def test_control_plane_gets_the_gpus_without_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_machine(monkeypatch)
    spec = LabSpec.model_validate({"name": "demo", "cluster": {"workers": 0}, "gpu": {"mode": "simulated"}})
    world = GpuWorld(tmp_path, spec)
    world.nodes["kailab-demo-control-plane"].offers = [wanted("kailab-demo-control-plane", spec)]
    GpuNodes(spec).apply(world.ctx)
    GpuNodes(spec).verify(world.ctx)
    assert world.nodes["kailab-demo-control-plane"].installs == 1


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda line: line.replace("sum ", "sum 0", 1) if "nvml.conf" in line else line, "nvml.conf differs"),
        (lambda line: "" if "cdi/kailab.json" in line else line, "kailab.json is missing"),
        (lambda line: "" if line.startswith("library") else line, "missing or broken"),
        (lambda line: "" if "/dev/nvidia1 " in line else line, "device /dev/nvidia1 is missing"),
        (lambda line: line.replace("nvidia1 195:1", "nvidia1 1:3"), "device /dev/nvidia1 is 1:3"),
        (lambda line: f"{line}\ndevice /dev/nvidia7 195:7" if "nvidiactl" in line else line, "nvidia7 should not"),
        (
            lambda line: line.replace("unit enabled active", "unit enabled failed"),
            "kailab-gpu.service is enabled failed",
        ),
        (lambda line: "" if line.startswith("usage") else line, "kailab-gpu-usage.service is missing"),
        (lambda line: "" if line.startswith("link /usr/bin/nvidia-smi") else line, "nvidia-smi links to nothing"),
    ],
)
def test_differences_on_a_node_are_named_and_repaired(
    world: GpuWorld, spoil: Callable[[str], str], message: str
) -> None:
    world.plan(*WORKERS)
    node = world.nodes[WORKERS[1]]
    node.lines = [spoil(line) for line in node.lines]
    step = GpuNodes(SPEC)
    seen = step.observe(world.ctx)
    assert seen.state is State.DRIFTED
    assert len(seen.diff) == 1
    assert seen.diff[0].startswith(f"{WORKERS[1]}: ")
    assert message in seen.diff[0]
    step.apply(world.ctx)
    step.verify(world.ctx)


def test_missing_label_is_drift(world: GpuWorld) -> None:
    world.plan(*WORKERS)
    world.api.get("Node", WORKERS[0])["metadata"]["labels"].clear()  # type: ignore[index]
    assert GpuNodes(SPEC).observe(world.ctx).diff == (f"{WORKERS[0]}: label nvidia.com/gpu.present=true is missing",)


def test_different_number_of_gpus_is_drift(world: GpuWorld) -> None:
    world.plan(*WORKERS)
    more = LabSpec.model_validate({"name": "demo", "gpu": {"mode": "simulated", "perNode": 3}})
    diff = GpuNodes(more).observe(world.ctx).diff
    assert [line for line in diff if "nvml.conf differs" in line or "/dev/nvidia2 is missing" in line]


def test_stopped_nodes_are_not_queried(world: GpuWorld) -> None:
    world.plan(*WORKERS)
    world.nodes[WORKERS[0]].state = "exited"
    seen = GpuNodes(SPEC).observe(world.ctx)
    assert seen.state is State.DRIFTED
    assert seen.diff == (f"{WORKERS[0]} is not running",)
    assert not [line for line in world.runner.lines if "exec" in line]


def test_nodes_without_the_toolkit_are_refused_before_any_write(world: GpuWorld) -> None:
    world.nodes[WORKERS[0]].bare = True
    with pytest.raises(LabError, match="cannot get GPUs") as refused:
        GpuNodes(SPEC).apply(world.ctx)
    assert "kailab down" in refused.value.fix
    assert any("handler" in line for line in refused.value.evidence)
    assert not any(node.installs for node in world.nodes.values())


def test_verify_fails_when_the_toolkit_does_not_resolve_a_gpu(world: GpuWorld) -> None:
    world.plan(*WORKERS)
    world.runner.handle(["docker", "exec", WORKERS[1], "nvidia-ctk", "cdi", "list"], out="", err="0 devices")
    world.runner.handlers.reverse()
    with pytest.raises(StepFailed, match=f"{WORKERS[1]}.*toolkit does not find GPU-") as failed:
        GpuNodes(SPEC).verify(world.ctx)
    assert "0 devices" in failed.value.evidence


def test_files_are_installed_by_one_command_per_node(world: GpuWorld) -> None:
    for name in WORKERS:
        world.nodes[name].offers = [wanted(name)]
    GpuNodes(SPEC).apply(world.ctx)
    unpacked = [call for call in world.runner.calls if isinstance(call.stdin, bytes)]
    assert {call.argv[3] for call in unpacked} == set(WORKERS)
    assert all(f"sh {HOME}/incoming/install.sh" in call.argv[-1] for call in unpacked)
