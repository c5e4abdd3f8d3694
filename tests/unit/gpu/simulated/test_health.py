"""Failing and healing GPUs: written state, waits, and that 'kailab up' leaves failed GPUs failed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.config import LabSpec
from lab.engine.step import State
from lab.errors import LabError, SpecError, WaitTimeout
from lab.gpu import GpuNodes, GpuPlugin
from lab.gpu.device_plugin import Offer
from lab.gpu.simulated.devices import gpus_of
from lab.gpu.simulated.fault_injection import GpuRef, every_gpu, fail, find, heal, ignored
from lab.gpu.simulated.health import APPLICATION_XIDS, Health, failures_in, with_failures
from lab.gpu.simulated.node_files import NVML_CONFIG, nvml_config
from tests.support.gpu_world import SPEC, WORKERS, GpuWorld, plugin_pod, pretend_machine, wanted

NODE, OTHER = WORKERS
ECC, LOST, FAULT = Health(48), Health(79, lost=True), Health(31)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GpuWorld:
    """A lab whose kubelets offer all GPUs."""
    pretend_machine(monkeypatch)
    world = GpuWorld(tmp_path)
    world.api.cluster.patience = 0.1
    world.plan(*WORKERS)
    world.api.add(*GpuPlugin(SPEC).documents())
    world.serve()
    return world


def plugin_loop(world: GpuWorld, node: str = NODE, *, ignored_checks: int = 0) -> Callable[[], None]:
    """Behave as the device plugin: withdraw newly failed GPUs, and return under another name when deleted.

    It ignores the first ``ignored_checks`` checks.
    """
    seen = {"checks": 0, "known": frozenset(failures_in(world.nodes[node].conf)), "healthy": 2}
    names = {"pod": f"plugin-{node}"}

    def check() -> None:
        pods = [pod for pod in world.api.of_kind("Pod") if pod["spec"].get("nodeName") == node]
        if not pods:
            names["pod"] += "-again"
            pod = plugin_pod(node, GpuPlugin(SPEC).config_hash(), "2026-11-21T11:00:00Z")
            pod["metadata"]["name"] = names["pod"]
            world.api.add(pod)
            seen.update(known=frozenset(failures_in(world.nodes[node].conf)), healthy=2)
        failed = frozenset(i for i, h in failures_in(world.nodes[node].conf).items() if h.failed)
        if seen["checks"] >= ignored_checks:
            seen["healthy"] -= len(failed - seen["known"])
            seen["known"] = failed
        seen["checks"] += 1
        world.offer(node, seen["healthy"])

    return check


@pytest.mark.parametrize("health", [ECC, LOST, FAULT, Health(0, lost=True)])
def test_written_state_is_read_back(health: Health) -> None:
    gpus = gpus_of("demo", NODE, SPEC.gpu)
    assert failures_in(nvml_config(NODE, gpus)) == {}
    text = nvml_config(NODE, with_failures(gpus, {1: health}))
    assert failures_in(text) == {1: health}
    assert failures_in(text.replace("health=lost", "lost=1")) == {1: health}


def test_state_inside_a_product_name_is_ignored() -> None:
    spec = LabSpec.model_validate({"gpu": {"model": "A index=1 xid=79 health=lost", "memoryMiB": 1000}})
    assert failures_in(nvml_config("w", gpus_of("demo", "w", spec.gpu))) == {}


def test_health_as_text() -> None:
    assert str(ECC) == "XID 48, double-bit ECC error"
    assert str(LOST) == "XID 79, GPU has fallen off the bus; lost"
    assert str(Health(999)) == "XID 999"
    assert str(Health()) == "healthy"


def test_application_errors_are_not_failures() -> None:
    assert [Health(xid).failed for xid in sorted(APPLICATION_XIDS)] == [False] * 6
    assert "keeps the GPU healthy" in ignored(FAULT)
    assert (ECC.failed, LOST.failed, Health(31, lost=True).failed) == (True, True, True)
    assert ignored(ECC) == ignored(LOST) == ""


@pytest.mark.parametrize("text", ["worker2/1", "kailab-demo-worker2/1"])
def test_gpu_is_found_by_short_or_full_node_name(world: GpuWorld, text: str) -> None:
    assert find(world.ctx, text) == GpuRef(OTHER, 1)
    assert len(every_gpu(world.ctx)) == 4


@pytest.mark.parametrize("text", ["worker2", "worker2/2", "worker3/0", "control-plane/0", "worker2/-1", "1"])
def test_unknown_gpu_is_refused_with_the_existing_ones(world: GpuWorld, text: str) -> None:
    with pytest.raises(SpecError, match=f"GPU '{text}' does not exist") as refused:
        find(world.ctx, text)
    assert refused.value.fix == "use one of worker/0, worker/1, worker2/0, worker2/1"


def test_failing_a_real_gpu_is_refused(tmp_path: Path) -> None:
    world = GpuWorld(tmp_path, LabSpec.model_validate({"name": "demo", "gpu": {"mode": "nvidia"}}))
    with pytest.raises(SpecError, match="not simulated"):
        find(world.ctx, "worker/0")


def test_fail_writes_the_state_and_waits_for_the_kubelet(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = plugin_loop(world)
    fail(world.ctx, GpuRef(NODE, 1), ECC)
    assert failures_in(world.nodes[NODE].conf) == {1: ECC}
    assert world.nodes[NODE].conf == wanted(NODE, failures={1: ECC}).texts[NVML_CONFIG]
    assert world.deleted == []


def test_error_missed_by_a_starting_plugin_is_repeated(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = plugin_loop(world, ignored_checks=1)
    fail(world.ctx, GpuRef(NODE, 0), ECC)
    assert [failures_in(text) for text in world.nodes[NODE].writes] == [{0: ECC}, {}, {0: ECC}]
    assert any("sleep" in call.argv[-1] for call in world.runner.calls if call.stdin)


def test_wait_for_a_plugin_that_ignores_the_error_times_out(world: GpuWorld) -> None:
    with pytest.raises(WaitTimeout, match=f"kubelets offer GPUs: {NODE}: 1"):
        fail(world.ctx, GpuRef(NODE, 0), ECC)


def test_application_error_is_written_without_waiting(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = lambda: pytest.fail("waited")
    fail(world.ctx, GpuRef(NODE, 0), FAULT)
    assert failures_in(world.nodes[NODE].conf) == {0: FAULT}
    assert heal(world.ctx, [GpuRef(NODE, 0)]) == (GpuRef(NODE, 0),)
    assert failures_in(world.nodes[NODE].conf) == {}
    assert world.deleted == []


def test_failing_a_failed_gpu_is_refused(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = plugin_loop(world)
    fail(world.ctx, GpuRef(NODE, 0), ECC)
    with pytest.raises(LabError, match="worker/0 has already failed: XID 48") as refused:
        fail(world.ctx, GpuRef(NODE, 0), LOST)
    assert refused.value.fix == "kailab gpu heal worker/0"


def test_fail_without_a_device_plugin_writes_nothing(world: GpuWorld) -> None:
    world.api.remove("Pod")
    with pytest.raises(LabError, match="does not run"):
        fail(world.ctx, GpuRef(NODE, 0), ECC)
    assert world.nodes[NODE].writes == []


def test_lost_gpu_may_make_all_gpus_unavailable(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = lambda: world.offer(NODE, 0)
    fail(world.ctx, GpuRef(NODE, 0), LOST)
    assert failures_in(world.nodes[NODE].conf) == {0: LOST}
    assert GpuPlugin(SPEC).observe(world.ctx).state is State.READY


def test_steps_are_ready_with_a_failed_gpu(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = plugin_loop(world)
    fail(world.ctx, GpuRef(NODE, 1), ECC)
    nodes, plugin = GpuNodes(SPEC).observe(world.ctx), GpuPlugin(SPEC).observe(world.ctx)
    assert (nodes.state, plugin.state) == (State.READY, State.READY)
    assert nodes.detail.endswith("; failed: worker/1 (XID 48, double-bit ECC error)")
    assert plugin.detail == "4 GPUs, 1 of them failed"


def test_rewriting_the_files_does_not_heal(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = plugin_loop(world)
    fail(world.ctx, GpuRef(NODE, 1), ECC)
    world.nodes[NODE].lines = [line for line in world.nodes[NODE].lines if "kailab.json" not in line]
    world.nodes[NODE].offers = [wanted(NODE, failures={1: ECC})]
    step = GpuNodes(SPEC)
    assert step.observe(world.ctx).diff == (f"{NODE}: /etc/cdi/kailab.json is missing",)
    step.apply(world.ctx)
    step.verify(world.ctx)
    assert failures_in(world.nodes[NODE].conf) == {1: ECC}


def test_heal_restarts_the_plugin_of_the_node(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = plugin_loop(world)
    fail(world.ctx, GpuRef(NODE, 1), ECC)
    assert heal(world.ctx, every_gpu(world.ctx)) == (GpuRef(NODE, 1),)
    assert world.nodes[NODE].conf == wanted(NODE).texts[NVML_CONFIG]
    assert world.deleted == [f"kube-system/plugin-{NODE}"]
    assert GpuPlugin(SPEC).observe(world.ctx).detail == "4 GPUs"


def test_healing_one_gpu_leaves_the_other_failed(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = plugin_loop(world)
    fail(world.ctx, GpuRef(NODE, 0), ECC)
    fail(world.ctx, GpuRef(NODE, 1), Health(94))
    assert heal(world.ctx, [GpuRef(NODE, 0)]) == (GpuRef(NODE, 0),)
    assert failures_in(world.nodes[NODE].conf) == {1: Health(94)}
    assert GpuPlugin(SPEC).observe(world.ctx).detail == "4 GPUs, 1 of them failed"


@pytest.mark.parametrize(
    ("failed", "offered", "held"),
    [
        pytest.param((1,), 1, 0.0, id="all-offered-is-new"),
        pytest.param((1,), 2, 3.0, id="all-offered-before"),
        pytest.param((0, 1), 0, 3.0, id="another-stays-failed"),
    ],
)
def test_heal_waits_longer_where_the_kubelet_status_may_be_stale(
    world: GpuWorld, failed: tuple[int, ...], offered: int, held: float
) -> None:
    world.api.cluster.meanwhile = plugin_loop(world)
    for index in failed:
        fail(world.ctx, GpuRef(NODE, index), ECC)
    world.offer(NODE, offered)
    heal(world.ctx, [GpuRef(NODE, failed[0])])
    holds = [wait.hold for wait in world.api.cluster.waits if wait.what == f"kubelets offer GPUs: {NODE}: 2"]
    assert holds == [held]


def test_healing_healthy_gpus_changes_nothing(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = lambda: pytest.fail("waited")
    assert heal(world.ctx, every_gpu(world.ctx)) == ()
    assert world.nodes[NODE].writes == world.nodes[OTHER].writes == []


@pytest.mark.parametrize(
    ("offer", "fits", "text"),
    [
        (Offer(2), [2], "2"),
        (Offer(4, 1), [3, 4], "3 (of 4, 1 failed)"),
        (Offer(3, 1, lost=True), [0, 1, 2, 3], "2 (of 3, 1 failed)"),
    ],
)
def test_offer_accepts_the_expected_counts(offer: Offer, fits: list[int], text: str) -> None:
    assert [seen for seen in range(6) if seen in offer] == fits
    assert str(offer) == text
