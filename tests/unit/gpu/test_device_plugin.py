"""Steps gpu-plugin and gpu-labels against a fake cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lab.config import LabSpec
from lab.engine.step import State
from lab.errors import StepFailed, WaitTimeout
from lab.gpu import GpuLabels, GpuPlugin
from lab.gpu.device_plugin import CONFIG_ANNOTATION
from lab.gpu.feature_labels import discovered
from tests.support.gpu_world import SPEC, STARTED, WORKERS, GpuWorld, Json, plugin_pod


def test_apply_installs_runtime_class_and_plugin_and_waits_for_gpus(world: GpuWorld) -> None:
    world.plan(*WORKERS)
    world.api.cluster.meanwhile = lambda: world.serve() if not world.api.of_kind("Pod") else None
    step = GpuPlugin(SPEC)
    assert step.observe(world.ctx).state is State.ABSENT
    step.apply(world.ctx)
    step.verify(world.ctx)
    assert step.observe(world.ctx).state is State.READY
    runtime_class = world.api.get("RuntimeClass", "nvidia")
    plugin = world.api.get("DaemonSet", "nvidia-device-plugin-daemonset", "kube-system")
    assert runtime_class is not None
    assert plugin is not None
    pod = plugin["spec"]["template"]["spec"]
    assert runtime_class["handler"] == pod["runtimeClassName"] == "nvidia"
    assert runtime_class["scheduling"]["nodeSelector"] == pod["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert "privileged" not in json.dumps(pod)
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in pod["containers"][0]["env"]
    assert plugin["spec"]["template"]["metadata"]["labels"] == {"name": "nvidia-device-plugin-ds", "kailab": "demo"}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda w: w.api.remove("RuntimeClass", "nvidia"), "RuntimeClass nvidia is missing"),
        (lambda w: w.api.of_kind("Pod")[0]["metadata"].update(annotations={CONFIG_ANNOTATION: "old"}), "does not run"),
        (lambda w: w.api.of_kind("Pod")[0]["status"].update(conditions=[]), "does not run"),
        (lambda w: w.api.of_kind("Pod")[0]["metadata"].update(deletionTimestamp="now"), "does not run"),
        (lambda w: w.api.get("Node", WORKERS[0])["status"].update(allocatable={}), "0 GPUs allocatable"),
    ],
)
def test_plugin_that_does_not_serve_is_drift(world: GpuWorld, spoil: Callable[[GpuWorld], Any], message: str) -> None:
    world.plan(*WORKERS)
    world.api.add(*GpuPlugin(SPEC).documents())
    world.serve()
    assert GpuPlugin(SPEC).observe(world.ctx).state is State.READY
    spoil(world)
    seen = GpuPlugin(SPEC).observe(world.ctx)
    assert seen.state is State.DRIFTED
    assert len(seen.diff) == 1
    assert message in seen.diff[0]


@pytest.mark.parametrize(
    ("restarted", "state"), [("2026-11-21T10:00:07.9Z", State.READY), ("2026-11-21T10:00:08.1Z", State.DRIFTED)]
)
def test_status_older_than_the_node_start_is_drift(world: GpuWorld, restarted: str, state: State) -> None:
    world.plan(*WORKERS)
    world.api.add(*GpuPlugin(SPEC).documents())
    world.serve(began="2026-11-21T10:00:07Z")
    world.started = restarted
    assert GpuPlugin(SPEC).observe(world.ctx).state is state


@pytest.mark.parametrize("change", [{"perNode": 3}, {"model": "NVIDIA H100 80GB HBM3"}, {"memoryMiB": 81559}])
def test_config_hash_depends_on_the_gpus(change: Json) -> None:
    other = LabSpec.model_validate({"name": "demo", "gpu": {"mode": "simulated", "perNode": 2, **change}})
    assert GpuPlugin(other).config_hash() != GpuPlugin(SPEC).config_hash()


def test_crashing_plugin_ends_the_wait_with_its_reason(world: GpuWorld) -> None:
    world.plan(*WORKERS)

    def crashes(restarts: int) -> None:
        pod = plugin_pod(WORKERS[0], "x", STARTED)
        state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
        status = [{"name": "c", "restartCount": restarts, "state": state}]
        pod["status"].update(conditions=[], containerStatuses=status)
        world.api.add(pod)

    crashes(0)
    world.api.after("watch", "Pod", lambda _: crashes(3))
    with pytest.raises(WaitTimeout, match="CrashLoopBackOff: back-off 40s"):
        GpuPlugin(SPEC).apply(world.ctx)


@pytest.mark.parametrize("reason", ["CrashLoopBackOff", "CreateContainerConfigError"])
def test_plugin_of_a_stopped_lab_is_waited_for(world: GpuWorld, reason: str) -> None:
    """Its restarts are of its whole life, and a kubelet that has just started has not read the Services."""
    world.plan(*WORKERS)
    pod = plugin_pod(WORKERS[0], "x", STARTED)
    state = {"waiting": {"reason": reason, "message": "services have not yet been read at least once"}}
    pod["status"].update(conditions=[], containerStatuses=[{"name": "c", "restartCount": 3, "state": state}])
    world.api.add(pod)

    def start() -> None:
        world.api.remove("Pod")
        world.serve()

    world.api.cluster.meanwhile = start
    GpuPlugin(SPEC).apply(world.ctx)


def test_plugin_is_restarted_on_a_node_with_an_unhealthy_gpu(world: GpuWorld) -> None:
    world.plan(*WORKERS)
    world.api.add(*GpuPlugin(SPEC).documents())
    world.serve()
    world.api.get("Node", WORKERS[1])["status"]["allocatable"]["nvidia.com/gpu"] = "1"  # type: ignore[index]

    def restart() -> None:
        world.api.remove("Pod")
        world.serve(began="2026-11-21T10:05:00Z")

    world.api.cluster.meanwhile = restart
    GpuPlugin(SPEC).apply(world.ctx)
    GpuPlugin(SPEC).verify(world.ctx)
    assert world.deleted == [f"kube-system/plugin-{WORKERS[1]}"], "the other node is healthy"


def test_plugin_log_is_evidence_if_the_kubelet_offers_too_few_gpus(world: GpuWorld) -> None:
    world.plan(*WORKERS)
    world.api.cluster.meanwhile = lambda: world.serve(gpus=1) if not world.api.of_kind("Pod") else None
    world.api.cluster.patience = 0.1
    with pytest.raises(WaitTimeout, match=f"offer GPUs: {WORKERS[0]}: 2, {WORKERS[1]}: 2") as failed:
        GpuPlugin(SPEC).apply(world.ctx)
    assert f"plugin-{WORKERS[0]}: log of plugin-{WORKERS[0]}" in failed.value.evidence


DISCOVERED = """\
I1121 main.go:213] Start running
nvidia.com/gpu.count=2
nvidia.com/gpu.memory=40960
nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB
nvidia.com/gpu.machine=unknown
not a label=x
"""


def test_apply_sets_the_discovered_labels(world: GpuWorld) -> None:
    world.plan(*WORKERS)
    world.serve()
    world.discovery = DISCOVERED
    world.api.change("Node", WORKERS[0], metadata={"labels": {"nvidia.com/gpu.family": "old", "mine": "1"}})
    step = GpuLabels(SPEC)
    assert step.observe(world.ctx).state is State.ABSENT
    step.apply(world.ctx)
    step.verify(world.ctx)
    assert step.observe(world.ctx).state is State.READY
    assert {call.name for call in world.api.calls_of("exec")} == {f"plugin-{name}" for name in WORKERS}
    assert world.api.get("Node", WORKERS[0])["metadata"]["labels"] == {  # type: ignore[index]
        "mine": "1",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.memory": "40960",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
        "nvidia.com/gpu.machine": "unknown",
    }


def test_labels_of_another_model_are_drift(world: GpuWorld) -> None:
    world.plan(*WORKERS)
    world.serve()
    world.discovery = DISCOVERED
    GpuLabels(SPEC).apply(world.ctx)
    other = LabSpec.model_validate({"name": "demo", "gpu": {"mode": "simulated", "memoryMiB": 81559}})
    assert GpuLabels(other).observe(world.ctx).diff == tuple(
        f"{name}: label nvidia.com/gpu.memory is 40960, should be 81559" for name in WORKERS
    )


def test_discovery_without_labels_is_an_error_with_its_output() -> None:
    with pytest.raises(StepFailed) as failed:
        discovered("E1121 main.go:126] Driver Not Loaded\n")
    assert failed.value.evidence == ("E1121 main.go:126] Driver Not Loaded",)


def test_labels_without_a_running_plugin_are_an_error_with_the_nodes(world: GpuWorld) -> None:
    world.plan(*WORKERS)
    with pytest.raises(StepFailed, match=f"does not run on {WORKERS[0]}, {WORKERS[1]}"):
        GpuLabels(SPEC).apply(world.ctx)
