"""A simulated GPU fails and is healed: the device plugin notices, and the scheduler acts on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from lab.api import Lab
from lab.engine.step import State
from lab.kube import Cluster
from lab.kube.views import NodeView, PodView
from lab.parts.context import LabContext
from lab.parts.gpu.health import OFF_THE_BUS, Health, failures_on
from lab.parts.gpu.health_change import GpuRef, every_gpu, fail, heal
from lab.parts.gpu.pools import short_name
from lab.parts.place import Place
from lab.parts.workloads import KAI_SCHEDULER, gpu_pod
from lab.pytest_gpus import HOME

from .checks import on_gpus, on_one_node

ECC = Health(48)
LOST = Health(OFF_THE_BUS, lost=True)


@dataclass
class Clinic:
    """Lets GPUs fail and heals them; ``heal`` without arguments heals whatever failed here."""

    ctx: LabContext
    failed: set[GpuRef] = field(default_factory=set)

    def fail(self, node: NodeView, index: int, health: Health = ECC) -> None:
        gpu = GpuRef(node.name, index)
        self.failed.add(gpu)
        fail(self.ctx, gpu, health)

    def heal(self) -> None:
        heal(self.ctx, sorted(self.failed, key=str))


@pytest.fixture
def clinic(request: pytest.FixtureRequest, lab: Lab, free_gpus: None) -> Iterator[Clinic]:
    """GPUs of the test's that are all well before, and after."""
    if lab.gpu_mode != "simulated":
        pytest.skip(f"GPUs are {lab.gpu_mode}: they do not fail on demand")
    ctx = lab.context("gpu")
    mine = request.node.stash.get(HOME, "")
    nodes = [mine] if mine else sorted({gpu.node for gpu in every_gpu(ctx)})
    sick = {node: found for node in nodes if (found := failures_on(ctx, node))}
    assert not sick, "GPUs have failed before the test; lab gpu heal --all"
    clinic = Clinic(ctx)
    yield clinic
    clinic.heal()


def offered(cluster: Cluster, node: NodeView) -> int:
    """Allocatable GPUs of a node, now."""
    return NodeView.of(cluster.get("Node", node.name) or {}).gpus


def refused(pod: PodView) -> bool:
    """Whether a scheduler has looked at the pod and found no node."""
    return any(c.type == "PodScheduled" and c.reason == "Unschedulable" for c in pod.conditions)


@on_one_node()
def test_failed_gpu_is_offered_again_only_when_healed(cluster: Cluster, home: NodeView, clinic: Clinic) -> None:
    clinic.fail(home, 0)
    assert offered(cluster, home) == home.gpus - 1
    clinic.heal()
    assert offered(cluster, home) == home.gpus


@on_one_node()
def test_lost_gpu_is_offered_again_only_when_healed(cluster: Cluster, home: NodeView, clinic: Clinic) -> None:
    clinic.fail(home, home.gpus - 1, LOST)
    assert offered(cluster, home) < home.gpus
    clinic.heal()
    assert offered(cluster, home) == home.gpus


@on_gpus()  # status looks at all nodes: nobody else may fail or heal a GPU meanwhile
def test_status_names_the_failed_gpu_and_finds_nothing_to_mend(lab: Lab, gpu_node: NodeView, clinic: Clinic) -> None:
    clinic.fail(gpu_node, 0)
    steps = {step: seen for step, _, seen in lab.status().steps if step in ("gpu-nodes", "gpu-plugin")}
    assert {seen.state for seen in steps.values()} == {State.READY}
    assert f"{short_name(lab.spec.name, gpu_node.name)}/0 ({ECC})" in steps["gpu-nodes"].detail


@on_one_node()
@pytest.mark.parametrize(
    "scheduler", [pytest.param(None, id="default"), pytest.param(KAI_SCHEDULER, id="kai", marks=pytest.mark.kai)]
)
def test_pod_that_needs_all_gpus_of_a_node_waits_until_they_are_well(
    place: Place, queue: str, home: NodeView, clinic: Clinic, scheduler: str | None
) -> None:
    clinic.fail(home, 0)
    place.submit(gpu_pod("all", gpus=home.gpus, queue=queue, scheduler=scheduler))
    (waiting,) = place.on_host(refused, "all", timeout=120, what="refused")
    assert waiting.node == ""
    clinic.heal()
    (running,) = place.running("all", timeout=180)
    assert running.node == home.name


@on_gpus(least=2)
@pytest.mark.parametrize(
    "scheduler", [pytest.param(None, id="default"), pytest.param(KAI_SCHEDULER, id="kai", marks=pytest.mark.kai)]
)
def test_pod_that_no_longer_fits_goes_to_another_node(
    place: Place, queue: str, gpu_nodes: tuple[NodeView, ...], clinic: Clinic, scheduler: str | None
) -> None:
    node = min(gpu_nodes, key=lambda node: node.gpus)
    others = {other.name for other in gpu_nodes if other.name != node.name and other.gpus >= node.gpus}
    if not others:
        pytest.skip("only one node has GPUs")
    clinic.fail(node, 0)
    place.submit(gpu_pod("all", gpus=node.gpus, queue=queue, scheduler=scheduler))
    (pod,) = place.running("all", timeout=120)
    assert pod.node in others


@on_one_node()
def test_pod_keeps_running_on_a_gpu_that_fails_under_it(
    place: Place, home: NodeView, cluster: Cluster, clinic: Clinic
) -> None:
    place.submit(gpu_pod("all", gpus=home.gpus, scheduler=None))
    (before,) = place.running("all", timeout=120)
    clinic.fail(home, 0)
    assert offered(cluster, home) == home.gpus - 1
    (after,) = place.host_pods()
    assert (after.uid, after.ready, after.restarts) == (before.uid, True, before.restarts)
