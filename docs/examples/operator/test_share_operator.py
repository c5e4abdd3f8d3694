"""Three tests of the operator's pods on a lab."""

from collections.abc import Callable

import pytest
from share_operator import pod_of

from lab import Lab
from lab.explain import explained
from lab.objects.views import PodView
from lab.operations.explain import read
from lab.workloads.namespace import Inside, WorkloadNamespace

pytestmark = pytest.mark.kai


@pytest.mark.gpus(min=1)
def test_two_models_share_a_gpu(gpu_node_lease: str, workloads: WorkloadNamespace, queue: str) -> None:
    workloads.submit(pod_of("large", 0.7, queue))
    (large,) = workloads.running("large")
    workloads.submit(pod_of("small", 0.2, queue))
    (small,) = workloads.running("small")
    assert small.node == large.node == gpu_node_lease
    assert small.gpu_groups == large.gpu_groups != ()


@pytest.mark.gpus(min=1)
def test_a_whole_gpu_is_seen_by_the_container(
    gpu_node_lease: str, workloads: WorkloadNamespace, queue: str, probe: Callable[[PodView], Inside]
) -> None:
    workloads.submit(pod_of("whole", 1, queue))
    (pod,) = workloads.running("whole")
    assert len(probe(pod).gpus) == 1


def test_too_many_gpus_are_explained(lab: Lab, workloads: WorkloadNamespace, queue: str) -> None:
    workloads.submit(pod_of("huge", 64, queue))
    workloads.on_host(lambda pod: bool(pod.conditions), "huge", what="refused by the scheduler")
    rules = [finding.rule for finding in explained(read(lab), "huge", workloads.namespace).findings]
    assert "nodes.gpus" in rules
