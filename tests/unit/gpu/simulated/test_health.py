"""GPUs that fail and are healed: what is written, what is waited for, and that 'lab up' leaves them failed."""

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
    """A lab whose GPUs are all offered."""
    pretend_machine(monkeypatch)
    world = GpuWorld(tmp_path)
    world.api.cluster.patience = 0.1
    world.plan(*WORKERS)
    world.api.add(*GpuPlugin(SPEC).documents())
    world.serve()
    return world


def by_plugin(world: GpuWorld, node: str = NODE, *, deaf: int = 0) -> Callable[[], None]:
    """What the device plugin does: it takes away what is new, and comes back by another name when deleted.

    ``deaf``: how many of its first looks it takes no notice.
    """
    seen = {"looks": 0, "known": frozenset(failures_in(world.nodes[node].conf)), "healthy": 2}
    names = {"pod": f"plugin-{node}"}

    def look() -> None:
        pods = [pod for pod in world.api.of_kind("Pod") if pod["spec"].get("nodeName") == node]
        if not pods:
            names["pod"] += "-again"
            pod = plugin_pod(node, GpuPlugin(SPEC).config_hash(), "2026-11-21T11:00:00Z")
            pod["metadata"]["name"] = names["pod"]
            world.api.add(pod)
            seen.update(known=frozenset(failures_in(world.nodes[node].conf)), healthy=2)
        failed = frozenset(i for i, h in failures_in(world.nodes[node].conf).items() if h.failed)
        if seen["looks"] >= deaf:
            seen["healthy"] -= len(failed - seen["known"])
            seen["known"] = failed
        seen["looks"] += 1
        world.offer(node, seen["healthy"])

    return look


@pytest.mark.parametrize("health", [ECC, LOST, FAULT, Health(0, lost=True)])
def test_what_is_written_is_what_is_read(health: Health) -> None:
    gpus = gpus_of("demo", NODE, SPEC.gpu)
    assert failures_in(nvml_config(NODE, gpus)) == {}
    text = nvml_config(NODE, with_failures(gpus, {1: health}))
    assert failures_in(text) == {1: health}
    assert failures_in(text.replace("health=lost", "lost=1")) == {1: health}


def test_a_product_name_is_not_taken_for_a_state() -> None:
    spec = LabSpec.model_validate({"gpu": {"model": "A index=1 xid=79 health=lost", "memoryMiB": 1000}})
    assert failures_in(nvml_config("w", gpus_of("demo", "w", spec.gpu))) == {}


def test_states_in_words() -> None:
    assert str(ECC) == "XID 48, double-bit ECC error"
    assert str(LOST) == "XID 79, GPU has fallen off the bus; lost"
    assert str(Health(999)) == "XID 999"
    assert str(Health()) == "healthy"


def test_errors_of_applications_are_no_failure() -> None:
    assert [Health(xid).failed for xid in sorted(APPLICATION_XIDS)] == [False] * 6
    assert "keeps the GPU healthy" in ignored(FAULT)
    assert (ECC.failed, LOST.failed, Health(31, lost=True).failed) == (True, True, True)
    assert ignored(ECC) == ignored(LOST) == ""


@pytest.mark.parametrize("text", ["worker2/1", "kailab-demo-worker2/1"])
def test_a_gpu_is_found_by_either_name_of_its_node(world: GpuWorld, text: str) -> None:
    assert find(world.ctx, text) == GpuRef(OTHER, 1)
    assert len(every_gpu(world.ctx)) == 4


@pytest.mark.parametrize("text", ["worker2", "worker2/2", "worker3/0", "control-plane/0", "worker2/-1", "1"])
def test_what_is_no_gpu_is_refused_with_those_there_are(world: GpuWorld, text: str) -> None:
    with pytest.raises(SpecError, match=f"GPU '{text}' does not exist") as refused:
        find(world.ctx, text)
    assert refused.value.fix == "use one of worker/0, worker/1, worker2/0, worker2/1"


def test_real_gpus_do_not_fail_on_demand(tmp_path: Path) -> None:
    world = GpuWorld(tmp_path, LabSpec.model_validate({"name": "demo", "gpu": {"mode": "nvidia"}}))
    with pytest.raises(SpecError, match="not simulated"):
        find(world.ctx, "worker/0")


def test_failing_writes_the_state_in_place_and_waits_for_the_kubelet(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = by_plugin(world)
    fail(world.ctx, GpuRef(NODE, 1), ECC)
    assert failures_in(world.nodes[NODE].conf) == {1: ECC}
    assert world.nodes[NODE].conf == wanted(NODE, failures={1: ECC}).texts[NVML_CONFIG]
    assert world.deleted == []


def test_an_error_that_a_starting_plugin_missed_happens_again(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = by_plugin(world, deaf=1)
    fail(world.ctx, GpuRef(NODE, 0), ECC)
    assert [failures_in(text) for text in world.nodes[NODE].writes] == [{0: ECC}, {}, {0: ECC}]
    assert any("sleep" in call.argv[-1] for call in world.runner.calls if call.stdin)


def test_a_plugin_that_never_notices_is_told(world: GpuWorld) -> None:
    with pytest.raises(WaitTimeout, match=f"kubelets offer GPUs: {NODE}: 1"):
        fail(world.ctx, GpuRef(NODE, 0), ECC)


def test_an_error_of_an_application_is_written_and_nothing_waited_for(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = lambda: pytest.fail("waited")
    fail(world.ctx, GpuRef(NODE, 0), FAULT)
    assert failures_in(world.nodes[NODE].conf) == {0: FAULT}
    assert heal(world.ctx, [GpuRef(NODE, 0)]) == (GpuRef(NODE, 0),)
    assert failures_in(world.nodes[NODE].conf) == {}
    assert world.deleted == []


def test_a_failed_gpu_does_not_fail_again(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = by_plugin(world)
    fail(world.ctx, GpuRef(NODE, 0), ECC)
    with pytest.raises(LabError, match="worker/0 has already failed: XID 48") as refused:
        fail(world.ctx, GpuRef(NODE, 0), LOST)
    assert refused.value.fix == "lab gpu heal worker/0"


def test_without_a_device_plugin_nothing_is_written(world: GpuWorld) -> None:
    world.api.remove("Pod")
    with pytest.raises(LabError, match="does not run"):
        fail(world.ctx, GpuRef(NODE, 0), ECC)
    assert world.nodes[NODE].writes == []


def test_a_lost_gpu_may_take_the_others_along(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = lambda: world.offer(NODE, 0)
    fail(world.ctx, GpuRef(NODE, 0), LOST)
    assert failures_in(world.nodes[NODE].conf) == {0: LOST}
    assert GpuPlugin(SPEC).observe(world.ctx).state is State.READY


def test_up_and_status_take_a_failed_gpu_for_a_state(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = by_plugin(world)
    fail(world.ctx, GpuRef(NODE, 1), ECC)
    nodes, plugin = GpuNodes(SPEC).observe(world.ctx), GpuPlugin(SPEC).observe(world.ctx)
    assert (nodes.state, plugin.state) == (State.READY, State.READY)
    assert nodes.detail.endswith("; failed: worker/1 (XID 48, double-bit ECC error)")
    assert plugin.detail == "4 GPUs, 1 of them failed"


def test_writing_the_files_again_does_not_heal(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = by_plugin(world)
    fail(world.ctx, GpuRef(NODE, 1), ECC)
    world.nodes[NODE].lines = [line for line in world.nodes[NODE].lines if "kailab.json" not in line]
    world.nodes[NODE].offers = [wanted(NODE, failures={1: ECC})]
    step = GpuNodes(SPEC)
    assert step.observe(world.ctx).diff == (f"{NODE}: /etc/cdi/kailab.json is missing",)
    step.apply(world.ctx)
    step.verify(world.ctx)
    assert failures_in(world.nodes[NODE].conf) == {1: ECC}


def test_healing_starts_the_plugin_of_that_node_again(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = by_plugin(world)
    fail(world.ctx, GpuRef(NODE, 1), ECC)
    assert heal(world.ctx, every_gpu(world.ctx)) == (GpuRef(NODE, 1),)
    assert world.nodes[NODE].conf == wanted(NODE).texts[NVML_CONFIG]
    assert world.deleted == [f"kube-system/plugin-{NODE}"]
    assert GpuPlugin(SPEC).observe(world.ctx).detail == "4 GPUs"


def test_healing_one_leaves_the_other_failed(world: GpuWorld) -> None:
    world.api.cluster.meanwhile = by_plugin(world)
    fail(world.ctx, GpuRef(NODE, 0), ECC)
    fail(world.ctx, GpuRef(NODE, 1), Health(94))
    assert heal(world.ctx, [GpuRef(NODE, 0)]) == (GpuRef(NODE, 0),)
    assert failures_in(world.nodes[NODE].conf) == {1: Health(94)}
    assert GpuPlugin(SPEC).observe(world.ctx).detail == "4 GPUs, 1 of them failed"


@pytest.mark.parametrize(
    ("failed", "offered", "held"),
    [
        pytest.param((1,), 1, 0.0, id="offering-all-is-news"),
        pytest.param((1,), 2, 3.0, id="all-were-offered-before"),
        pytest.param((0, 1), 0, 3.0, id="another-fails-again"),
    ],
)
def test_the_kubelets_word_must_hold_where_it_may_be_old(
    world: GpuWorld, failed: tuple[int, ...], offered: int, held: float
) -> None:
    world.api.cluster.meanwhile = by_plugin(world)
    for index in failed:
        fail(world.ctx, GpuRef(NODE, index), ECC)
    world.offer(NODE, offered)
    heal(world.ctx, [GpuRef(NODE, failed[0])])
    holds = [wait.hold for wait in world.api.cluster.waits if wait.what == f"kubelets offer GPUs: {NODE}: 2"]
    assert holds == [held]


def test_healing_what_is_well_changes_nothing(world: GpuWorld) -> None:
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
def test_what_a_node_may_offer(offer: Offer, fits: list[int], text: str) -> None:
    assert [seen for seen in range(6) if seen in offer] == fits
    assert str(offer) == text
