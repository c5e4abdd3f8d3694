"""What several suites assert, in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from lab.kube import Cluster
from lab.kube.views import GPU_GROUP_LABEL, PodGroupView, PodView, ReservationView
from lab.parts.kai.steps import RESERVATIONS
from lab.parts.place import Place
from lab.parts.workloads import KAI_SCHEDULER

Test = TypeVar("Test", bound=Callable[..., object])


def on_gpus(least: int = 1) -> Callable[[Test], Test]:
    """Mark a test that needs GPUs for itself: one at a time, in one worker."""

    def mark(test: Test) -> Test:
        for decorate in (
            pytest.mark.gpus(min=least),
            pytest.mark.xdist_group("gpus"),
            pytest.mark.usefixtures("gpu_lock"),
        ):
            test = decorate(test)
        return test

    return mark


def assert_scheduled_by_kai(place: Place, pod: PodView, received: str) -> PodGroupView:
    """KAI placed this pod of the host and gave it ``received``: Regular or Fraction. Returns its PodGroup."""
    assert pod.scheduler_name == KAI_SCHEDULER
    assert pod.node
    assert pod.received_resource_type == received
    assert place.event(pod, "Scheduled").reporter == KAI_SCHEDULER
    assert pod.pod_group, f"pod {pod.name} has no annotation pod-group-name"
    group = place.host.get("PodGroup", pod.pod_group, pod.namespace)
    assert group is not None, f"there is no PodGroup {pod.namespace}/{pod.pod_group}"
    return PodGroupView.of(group)


def gpu_group(*pods: PodView) -> str:
    """The one GPU group that all these pods are in."""
    groups = {pod.name: pod.gpu_groups for pod in pods}
    assert len(set(groups.values())) == 1, f"not on one GPU: {groups}"
    (group,) = pods[0].gpu_groups
    return group


def reservations(cluster: Cluster, group: str) -> list[ReservationView]:
    """The reservation pods of a GPU group, as they are now."""
    pods = cluster.list("Pod", RESERVATIONS, labels=f"{GPU_GROUP_LABEL}={group}")
    return [ReservationView.of(pod) for pod in pods]
