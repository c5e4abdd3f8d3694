"""KAI schedules pods on the host and, through the syncer, in every tenant that uses the host's KAI."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.objects.views import PodView
from lab.session.lab import Lab
from lab.workloads.namespace import Inside, WorkloadNamespace
from lab.workloads.pods import cpu_pod, fraction_pod, gpu_memory_pod, gpu_pod

from .checks import assert_scheduled_by_kai, gpu_group, on_one_node
from .syncing import copied

pytestmark = [pytest.mark.kai, pytest.mark.places("host", "host-kai")]


def test_cpu_pod(workloads: WorkloadNamespace, queue: str) -> None:
    workloads.submit(cpu_pod("cpu", queue=queue))
    (pod,) = workloads.running("cpu")
    group = assert_scheduled_by_kai(workloads, pod, "Regular")
    assert group.queue == queue
    assert group.min_member == 1


@on_one_node()
def test_whole_gpu_pod(
    lab: Lab,
    workloads: WorkloadNamespace,
    queue: str,
    probe: Callable[[PodView], Inside],
    gpu_uuids: Callable[[str], frozenset[str] | None],
) -> None:
    workloads.submit(gpu_pod("whole", queue=queue))
    (pod,) = workloads.running("whole")
    assert_scheduled_by_kai(workloads, pod, "Regular")
    assert pod.gpu_groups == ()
    if not lab.gpus_in_containers:
        return
    inside = probe(pod)
    assert len(inside.gpus) == 1
    (uuid,) = inside.visible
    known = gpu_uuids(pod.node)
    assert known is None or uuid in known


@on_one_node()
def test_fractions_share_one_gpu(workloads: WorkloadNamespace, queue: str) -> None:
    workloads.submit(fraction_pod("half", fraction=0.5, queue=queue))
    workloads.running("half")  # merely bound, KAI 0.16.8 once gave the next two another GPU of the node
    quarters = ("quarter-a", "quarter-b")
    workloads.submit(*(fraction_pod(name, fraction=0.25, queue=queue) for name in quarters))
    pods = workloads.running("half", *quarters)
    group = gpu_group(*pods)
    for pod in pods:
        assert_scheduled_by_kai(workloads, pod, "Fraction")
    assert len({pod.node for pod in pods}) == 1
    copied(workloads, lambda pod: pod.gpu_groups == (group,), "half", *quarters, what="labelled with their GPU group")


@on_one_node()
def test_gpu_memory_pod(workloads: WorkloadNamespace, queue: str, probe: Callable[[PodView], Inside]) -> None:
    workloads.submit(gpu_memory_pod("memory", mib=2000, queue=queue))
    (pod,) = workloads.running("memory")
    assert_scheduled_by_kai(workloads, pod, "Fraction")
    gpu_group(pod)
    assert len(probe(pod).visible) == 1
