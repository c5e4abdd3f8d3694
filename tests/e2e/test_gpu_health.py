"""A simulated GPU fails and recovers: the device plugin notices, and the scheduler acts on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from lab.engine.step import State
from lab.gpu.pools import short_name
from lab.gpu.simulated.fault_injection import GpuRef, every_gpu, fail, heal
from lab.gpu.simulated.health import OFF_THE_BUS, Health, failures_on
from lab.kai.names import KAI_SCHEDULER
from lab.kube import Cluster
from lab.objects.views import NodeView, PodView
from lab.operations.status import status
from lab.pytest_plugin.gpu_fixtures import LEASED_NODE
from lab.session.context import LabContext
from lab.session.lab import Lab
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import gpu_pod

from .checks import on_gpus, on_one_node
from .scheduling_decisions import bound

ECC = Health(48)
LOST = Health(OFF_THE_BUS, lost=True)


@dataclass
class Clinic:
    """Makes GPUs fail and recover; ``heal`` without arguments heals all that failed here."""

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
    """GPUs of the test, all healthy before and after it."""
    if lab.gpu_mode != "simulated" or not lab.gpus_in_containers:
        pytest.skip(f"GPUs are {lab.gpu_mode}: they do not fail on demand")
    ctx = lab.context("gpu")
    mine = request.node.stash.get(LEASED_NODE, "")
    nodes = [mine] if mine else sorted({gpu.node for gpu in every_gpu(ctx)})
    sick = {node: found for node in nodes if (found := failures_on(ctx, node))}
    assert not sick, "GPUs have failed before the test; kailab gpu heal --all"
    clinic = Clinic(ctx)
    yield clinic
    clinic.heal()


def offered(cluster: Cluster, node: NodeView) -> int:
    """Return the number of allocatable GPUs of a node."""
    return NodeView.of(cluster.get("Node", node.name) or {}).gpus


def refused(pod: PodView) -> bool:
    """Whether a scheduler has tried the pod and found no node."""
    return any(c.type == "PodScheduled" and c.reason == "Unschedulable" for c in pod.conditions)


@on_one_node()
@pytest.mark.parametrize(
    ("health", "scheduler"),
    [
        pytest.param(ECC, KAI_SCHEDULER, id="ecc-kai", marks=pytest.mark.kai),
        pytest.param(LOST, None, id="lost-default", marks=pytest.mark.without_kai),
    ],
)
def test_pod_that_needs_all_gpus_of_a_node_waits_until_they_are_well(
    workloads: WorkloadNamespace,
    queue: str,
    cluster: Cluster,
    leased_node: NodeView,
    clinic: Clinic,
    health: Health,
    scheduler: str | None,
) -> None:
    clinic.fail(leased_node, leased_node.gpus - 1, health)
    assert offered(cluster, leased_node) < leased_node.gpus  # if one fell off the bus, the plugin withdraws one or all
    workloads.submit(gpu_pod("all", gpus=leased_node.gpus, queue=queue, scheduler=scheduler))
    (waiting,) = workloads.on_host(refused, "all", timeout=120, what="refused")
    assert waiting.node == ""
    clinic.heal()
    (running,) = workloads.running("all", timeout=180)
    assert running.node == leased_node.name


@pytest.mark.without_kai
@on_one_node()
def test_pod_keeps_running_on_a_gpu_that_fails_under_it(
    workloads: WorkloadNamespace, leased_node: NodeView, cluster: Cluster, clinic: Clinic
) -> None:
    workloads.submit(gpu_pod("all", gpus=leased_node.gpus, scheduler=None))
    (before,) = workloads.running("all", timeout=120)
    clinic.fail(leased_node, 0)
    assert offered(cluster, leased_node) == leased_node.gpus - 1
    clinic.heal()
    assert offered(cluster, leased_node) == leased_node.gpus
    (after,) = workloads.host_pods()
    assert (after.uid, after.ready, after.restarts) == (before.uid, True, before.restarts)


@on_gpus()  # status reads all nodes: no other test may change the health of a GPU meanwhile
def test_status_names_the_failed_gpu_and_pods_go_to_another_node(
    lab: Lab, workloads: WorkloadNamespace, queue: str, gpu_nodes: tuple[NodeView, ...], clinic: Clinic
) -> None:
    node = min(gpu_nodes, key=lambda node: node.gpus)
    clinic.fail(node, 0)
    steps = {step.id: step.seen for step in status(lab).steps if step.id in ("gpu-nodes", "gpu-plugin")}
    assert {seen.state for seen in steps.values()} == {State.READY}  # nothing to repair
    assert f"{short_name(lab.spec.name, node.name)}/0 ({ECC})" in steps["gpu-nodes"].detail
    others = {other.name for other in gpu_nodes if other.name != node.name and other.gpus >= node.gpus}
    for scheduler in (None, *([KAI_SCHEDULER] if lab.has_kai else [])) if others else ():
        name = scheduler or "default"
        workloads.submit(gpu_pod(name, gpus=node.gpus, queue=queue, scheduler=scheduler))
        (pod,) = workloads.on_host(bound, name, timeout=120, what="placed")
        assert pod.node in others
        workloads.remove(name, timeout=120)
