"""Many fractions at once: KAI's scheduler and binder must not mix them up when all want a GPU (KAI#2153)."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lab.kube import Cluster
from lab.kube.readiness import is_ready
from lab.objects.views import NodeView, PodView
from lab.pytest_plugin.gpu_share import gpu_total
from lab.pytest_plugin.invariants import Held
from lab.session.lab import Lab
from lab.steps.kai.step import RESERVATIONS
from lab.workloads.modifiers import brief, of_priority
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import fraction_pod, gpu_memory_pod

from .checks import gpu_group, on_gpus, on_one_node, shares
from .scheduling_decisions import refused

pytestmark = [pytest.mark.kai, pytest.mark.places("host"), pytest.mark.timeout(1200)]

WAIT = 180.0
"""Seconds for each step; a step ends as soon as its pods are in the expected state."""

AT_ONCE = 16
"""Connections that submit in parallel."""

MIXED = 100
EACH = 25
"""Pods of the mixed storm: this many for each GPU, and at most ``MIXED``. One GPU runs about two at a time."""
WAVES = 4
STEPS = 5
"""Parts of the mixed storm; each must end within ``WAIT``."""

Json = dict[str, Any]


@pytest.fixture
def storm(invariants: Held, cluster: Cluster, workloads: WorkloadNamespace) -> Iterator[WorkloadNamespace]:
    """A watched workload namespace; at its end no unused GPU may be reserved."""
    where = f"spec.nodeName={workloads.node}" if workloads.node else None
    before = {pod["metadata"]["name"] for pod in cluster.list("Pod", RESERVATIONS, fields=where)}
    yield workloads
    workloads.remove(timeout=WAIT)
    cluster.wait(
        "Pod",
        lambda pods: {pod["metadata"]["name"] for pod in pods} <= before,
        namespace=RESERVATIONS,
        fields=where,
        timeout=WAIT,
        what="no reservation pod is left",
    )
    invariants.check()


def submit_at_once(workloads: WorkloadNamespace, pods: Sequence[Json]) -> None:
    """Create pods over many connections; raise the first refusal."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(workloads.submit, pods))


def wait_for(workloads: WorkloadNamespace, total: int, count: int, what: str, *, ended: bool = False) -> list[PodView]:
    """Wait until ``count`` of all pods are Ready or have succeeded; none may fail or disappear. Return all pods."""

    def failure(objects: list[Json]) -> str | None:
        if bad := next((PodView.of(obj) for obj in objects if obj["status"]["phase"] == "Failed"), None):
            return f"pod {bad.name} has failed: {bad.reason or 'a container'}"
        return f"{total - len(objects)} pods were deleted" if len(objects) < total else None

    def enough(objects: list[Json]) -> bool:
        there = [obj for obj in objects if (obj["status"]["phase"] == "Succeeded" if ended else is_ready(obj))]
        return len(there) >= count

    found = workloads.host.wait("Pod", enough, namespace=workloads.namespace, timeout=WAIT, fail=failure, what=what)
    return [PodView.of(obj) for obj in found]


def finishing(pod: Json, seconds: int) -> Json:
    """Return the pod with a command that ends after this many seconds."""
    changed = copy.deepcopy(brief(pod))
    changed["spec"]["restartPolicy"] = "Never"
    changed["spec"]["containers"][0]["command"] = ["sh", "-c", f"sleep {seconds}"]
    return changed


@on_one_node()
def test_twice_as_many_halves_as_gpus_at_once(
    storm: WorkloadNamespace, queue: str, cluster: Cluster, leased_node: NodeView
) -> None:
    """Two on each GPU and none left over: three of four captures in KAI#2153 had 3 on one and 1 on others."""
    gpus = leased_node.gpus
    names = [f"half-{number}" for number in range(2 * gpus)]
    submit_at_once(storm, [brief(fraction_pod(name, fraction=0.5, queue=queue)) for name in names])
    pods = storm.running(*names, timeout=WAIT)
    assert Counter(gpu_group(pod) for pod in pods) == Counter({gpu_group(pod): 2 for pod in pods})
    assert list(shares(cluster, pods).values()) == [1.0] * gpus


@on_gpus()
def test_those_that_do_not_fit_run_when_others_have_gone(storm: WorkloadNamespace, queue: str, lab: Lab) -> None:
    room = 2 * gpu_total(lab)
    names = [f"half-{number}" for number in range(room + 2)]
    submit_at_once(storm, [brief(fraction_pod(name, fraction=0.5, queue=queue)) for name in names])
    first = wait_for(storm, len(names), room, f"{room} of {len(names)} halves run")
    running = [pod.name for pod in first if pod.ready]
    waiting = sorted(set(names) - set(running))
    assert len(running) == room
    storm.on_host(refused, *waiting, timeout=WAIT, what="refused, as no GPU is free")
    storm.remove(*running[:2], timeout=WAIT)
    storm.running(*waiting, timeout=WAIT)


@on_gpus()
def test_a_hundred_mixed_fractions_at_once(
    storm: WorkloadNamespace, queue: str, gpu_nodes: tuple[NodeView, ...], lab: Lab
) -> None:
    """Tenths of a GPU from 1 to 9, as fractions and as MiB; each ends by itself, so that the storm drains in waves."""
    total = min(MIXED, EACH * gpu_total(lab))
    requested = mixed(total, queue, gpu_nodes)
    submit_at_once(storm, [finishing(pod, 1 + number % 2) for number, pod in enumerate(requested)])
    pods: list[PodView] = []
    for step in range(1, STEPS + 1):
        count = total * step // STEPS
        pods = wait_for(storm, total, count, f"{count} of {total} pods have ended", ended=True)
    assert all(pod.node and pod.received_resource_type == "Fraction" for pod in pods)
    assert {pod.requests.fraction is None for pod in pods} == {True, False}


def mixed(total: int, queue: str, nodes: Sequence[NodeView]) -> Iterator[Json]:
    """Pods of all sizes; every third requests MiB if the nodes report GPU memory.

    None is preemptible: KAI's consolidation moves a pod by deleting it (seen with 0.16.8), and nothing creates a pod
    without an owner again.
    """
    memory = min((node.gpu_memory or 0 for node in nodes), default=0)
    for number in range(total):
        tenths, name = number % 9 + 1, f"mixed-{number:02}"
        if memory and number % 3 == 0:
            pod = gpu_memory_pod(name, mib=memory * tenths // 10, queue=queue)
        else:
            pod = fraction_pod(name, fraction=tenths / 10, queue=queue)
        yield of_priority(pod, "build")


@pytest.mark.long
@on_gpus()
def test_gpus_change_hands_between_waves(storm: WorkloadNamespace, queue: str, lab: Lab) -> None:
    """Each wave starts while pods of the previous one end: reservation pods are deleted and created concurrently."""
    size = 2 * gpu_total(lab)
    for wave in range(WAVES):
        halves = [fraction_pod(f"wave{wave}-{number}", fraction=0.5, queue=queue) for number in range(size)]
        submit_at_once(storm, [finishing(half, 1) for half in halves])
        there = size * (wave + 1)
        wait_for(storm, there, there - size // 2, f"half of wave {wave + 1} has ended", ended=True)
    wait_for(storm, WAVES * size, WAVES * size, "all waves have ended", ended=True)
