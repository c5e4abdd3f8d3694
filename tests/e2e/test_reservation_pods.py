"""KAI's reservation pods: one for each shared GPU, on an existing GPU, deleted with its last user."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.kai.names import GPU_GROUP_LABEL
from lab.kube import Cluster
from lab.objects.views import PodView
from lab.session.lab import Lab
from lab.steps.kai.step import RESERVATIONS
from lab.workloads.namespace import Inside, WorkloadNamespace
from lab.workloads.pods import fraction_pod

from .checks import gpu_group, on_one_node, reservations
from .scheduling_decisions import decided

pytestmark = pytest.mark.kai

SHARES = {"half": 0.5, "quarter-a": 0.25, "quarter-b": 0.25}


@pytest.fixture
def sharing(workloads: WorkloadNamespace, queue: str) -> tuple[PodView, ...]:
    """0.5 + 0.25 + 0.25: three pods that fill one GPU."""
    first, *others = (fraction_pod(name, fraction=share, queue=queue) for name, share in SHARES.items())
    workloads.submit(first)
    workloads.on_host(lambda pod: bool(pod.node), "half", what="bound")
    workloads.submit(*others)
    return workloads.running(*SHARES)


@on_one_node()
def test_one_reservation_pod_holds_the_full_gpu_until_its_last_user_goes(
    lab: Lab,
    sharing: tuple[PodView, ...],
    workloads: WorkloadNamespace,
    cluster: Cluster,
    queue: str,
    probe: Callable[[PodView], Inside],
    gpu_uuids: Callable[[str], frozenset[str] | None],
) -> None:
    group = gpu_group(*sharing)

    def wait(count: int, hold: float) -> None:
        cluster.wait(
            "Pod",
            lambda pods: sum(PodView.of(pod).phase == "Running" for pod in pods) == len(pods) == count,
            namespace=RESERVATIONS,
            labels=f"{GPU_GROUP_LABEL}={group}",
            timeout=60,
            hold=hold,
            what=f"{count} reservation pods of GPU group {group}",
        )

    wait(1, hold=0)  # KAI binds its users once it knows the GPU, and that may be before the kubelet says Running
    (held,) = reservations(cluster, group)
    assert held.name.startswith("gpu-reservation-")
    assert {held.node} == {pod.node for pod in sharing}
    assert held.reserved_gpu.startswith("GPU-")
    known = gpu_uuids(held.node)
    assert known is None or held.reserved_gpu in known
    for pod, share in zip(sharing, SHARES.values(), strict=True):
        inside = probe(pod)
        assert inside.visible == (held.reserved_gpu,)
        assert len(inside.gpus) == int(lab.gpus_in_containers)
        assert float(inside.env["GPU_PORTION"]) == pytest.approx(share)

    # the pod that does not fit goes to another GPU, or waits
    workloads.submit(fraction_pod("fourth", fraction=0.5, queue=queue))
    (fourth,) = workloads.on_host(decided, "fourth", what="placed or refused")
    assert group not in fourth.gpu_groups
    if fourth.node:
        # Pods deleted while one is being bound leave the GPU reserved until KAI binds the next pod on the node.
        workloads.running("fourth")
        (other,) = reservations(cluster, gpu_group(fourth))
        assert other.reserved_gpu != held.reserved_gpu
    workloads.remove("fourth")

    workloads.remove("half", "quarter-a")
    wait(1, hold=1.5)  # the binder checks after each deletion; this is longer than that takes
    workloads.remove("quarter-b")
    wait(0, hold=0)
