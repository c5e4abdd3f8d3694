"""Gangs: pods that start together or not at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.config import QueueResource, QueueSpec
from lab.kube import Cluster
from lab.objects.views import EventView, PodView
from lab.pytest_plugin.fixtures import TenantFixture
from lab.pytest_plugin.gpu_share import gpu_total
from lab.session.lab import Lab
from lab.workloads.controllers import job, pod_group
from lab.workloads.modifiers import brief, in_group
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod, gpu_pod

from .checks import on_gpus
from .scheduling_decisions import OVER_LIMIT, WAIT, bound, decided, refusal, wait_for_all

pytestmark = pytest.mark.kai

GPUS = 4
POD_MILLICORES = 100
"""CPU request of a pod of cpu_pod."""

NewQueues = Callable[..., dict[str, str]]


def tree(cpu: float = -1, gpus: float = -1) -> tuple[QueueSpec, ...]:
    """Return a department and its team with these limits."""
    cpus, devices = QueueResource(limit=cpu), QueueResource(limit=gpus)
    return QueueSpec(name="department"), QueueSpec(name="team", parent="department", cpu=cpus, gpu=devices)


@on_gpus(GPUS)
def test_of_two_gangs_that_do_not_fit_together_one_starts(
    workloads: WorkloadNamespace, new_queues: NewQueues, lab: Lab
) -> None:
    """4 GPUs for a gang of three and a gang of two: the gang that comes second leaves GPUs free and starts no pod.

    Where there are more GPUs, the queue has a limit of 4.
    """
    queue = new_queues(*tree(gpus=-1 if gpu_total(lab) == GPUS else GPUS))["team"]
    gangs = {"three": ("three-a", "three-b", "three-c"), "two": ("two-a", "two-b")}
    for gang, members in gangs.items():
        group = f"{workloads.namespace}-{gang}"
        workloads.submit(pod_group(group, queue=queue, minimum=len(members)))
        workloads.submit(*(in_group(brief(gpu_pod(member, queue=queue)), group) for member in members))
    everybody = [member for members in gangs.values() for member in members]
    after = workloads.on_host(decided, *everybody, timeout=WAIT, what="placed or refused")
    placed = tuple(member for member, pod in zip(everybody, after, strict=True) if bound(pod))
    assert placed in gangs.values()
    waiting = [member for member in everybody if member not in placed]
    workloads.remove(*placed, timeout=WAIT)
    workloads.on_host(bound, *waiting, timeout=WAIT, what="placed once there is room for all")


def test_gang_waits_for_its_members(workloads: WorkloadNamespace, new_queues: NewQueues, cluster: Cluster) -> None:
    queue = new_queues(*tree())["team"]
    group = f"{workloads.namespace}-gang"
    workloads.submit(pod_group(group, queue=queue, minimum=2))
    workloads.submit(in_group(cpu_pod("early", queue=queue), group))
    cluster.wait(
        "Event",
        lambda events: any(EventView.of(event).reason == "NotReady" for event in events),
        namespace=workloads.namespace,
        fields=f"involvedObject.name={group}",
        timeout=WAIT,
        what="KAI reports that the gang is not complete",
    )
    (early,) = workloads.host_pods()
    assert not bound(early)
    workloads.submit(in_group(cpu_pod("late", queue=queue), group))
    workloads.on_host(bound, "early", "late", timeout=WAIT, what="placed")


@pytest.mark.kai(">=0.14.7")
def test_job_with_a_minimum_is_a_gang(workloads: WorkloadNamespace, new_queues: NewQueues, cluster: Cluster) -> None:
    queue = new_queues(*tree(cpu=POD_MILLICORES))["team"]
    workloads.submit(job("training", cpu_pod(queue=queue), pods=2, minimum=2))
    pods = wait_for_all(workloads, all_of(2, decided), what="both pods of the Job are placed or refused")
    assert [bound(pod) for pod in pods] == [False, False]
    assert all(OVER_LIMIT in refusal(pod) for pod in pods)
    cluster.patch("Queue", queue, {"spec": {"resources": {"cpu": {"limit": 2 * POD_MILLICORES}}}})
    wait_for_all(workloads, all_of(2, bound), what="both pods of the Job are placed")


@pytest.mark.kai(">=0.14.7")
@pytest.mark.tenants("host-kai")
def test_job_of_a_tenant_is_no_gang(tenant: TenantFixture, workloads: WorkloadNamespace, new_queues: NewQueues) -> None:
    """The host sees a vCluster's pods without the Job that owns them: each is a workload of its own."""
    queue = new_queues(*tree(cpu=POD_MILLICORES))["team"]
    workloads.submit(job("training", cpu_pod(queue=queue), pods=2, minimum=2))
    pods = wait_for_all(workloads, all_of(2, decided), what="both pods of the Job are placed or refused")
    assert sorted(bound(pod) for pod in pods) == [False, True]
    assert len({pod.pod_group for pod in pods}) == 2


def all_of(count: int, what: Callable[[PodView], bool]) -> Callable[[list[PodView]], bool]:
    """Whether ``count`` pods exist and all fulfil the condition."""
    return lambda pods: len(pods) == count and all(what(pod) for pod in pods)
