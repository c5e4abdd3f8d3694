"""Claims of queues from a snapshot, in KAI's counting."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lab.fair_share import fair_shares
from lab.kai.names import GPU_MEMORY_LABEL
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.queue_claims import cluster_total, queue_claims

Obj = dict[str, Any]


def node(name: str, *, ready: str = "True", cordoned: bool = False, memory: str = "40960") -> Obj:
    amounts = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "4"}
    return {
        "metadata": {"name": name, "labels": {GPU_MEMORY_LABEL: memory}},
        "spec": {"unschedulable": cordoned},
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": ready}]},
    }


def queue(name: str, parent: str = "", quota: float = -1) -> Obj:
    share = {"quota": quota, "limit": -1, "overQuotaWeight": 1}
    return {
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"parentQueue": parent, "resources": {"gpu": share, "cpu": share, "memory": share}},
    }


def pod(name: str, *, node: str = "", scheduler: str = "kai-scheduler", deleting: bool = False, **more: Any) -> Obj:
    meta: Obj = {"name": name, "namespace": "n", "annotations": {"pod-group-name": "g", **more.get("annotations", {})}}
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    requests = {"cpu": "500m", "memory": "1G", **({"nvidia.com/gpu": more["gpus"]} if "gpus" in more else {})}
    spec = {
        "nodeName": node,
        "schedulerName": scheduler,
        "schedulingGates": more.get("gates", []),
        "containers": [{"name": "c", "resources": {"requests": requests}}],
    }
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running" if node else "Pending"}}


def world(*pods: Obj, nodes: tuple[Obj, ...] = (node("a"),)) -> ClusterSnapshot:
    group = {"metadata": {"name": "g", "namespace": "n"}, "spec": {"queue": "leaf"}}
    objects = {"Node": nodes, "Pod": pods, "Queue": (queue("top"), queue("leaf", "top")), "PodGroup": (group,)}
    return ClusterSnapshot(datetime.now(UTC), objects)


def requests(*pods: Obj) -> dict[str, float]:
    claims = {claim.name: claim for claim in queue_claims(world(*pods))}
    assert claims["top"].request == claims["leaf"].request
    return dict(claims["leaf"].request)


def test_total_counts_usable_nodes_without_pods_of_other_schedulers() -> None:
    nodes = (node("a"), node("b", ready="False"), node("c", cordoned=True))
    other = pod("other", node="a", scheduler="default-scheduler", gpus="1")
    assert cluster_total(world(other, pod("own", node="a", gpus="1"), nodes=nodes)) == pytest.approx(
        {"cpu": 15500, "memory": 64 * 2**30 / 1e6 - 1000, "gpu": 3}
    )


def test_requests_are_those_of_allocated_and_pending_pods() -> None:
    assert requests(pod("a", node="a", gpus="2"), pod("b", gpus="1")) == {"cpu": 1000, "memory": 2000, "gpu": 3}


def test_pods_that_are_deleted_or_gated_request_nothing() -> None:
    gated = pod("g", gpus="1", gates=[{"name": "x"}])
    assert requests(pod("a", node="a", gpus="2", deleting=True), gated)["gpu"] == 0


def test_gpu_memory_is_exact_while_pending_and_rounded_up_once_allocated() -> None:
    wanted = {"annotations": {"gpu-memory": "1000"}}
    assert requests(pod("a", **wanted))["gpu"] == pytest.approx(1000 / 40900)
    assert requests(pod("a", node="a", **wanted))["gpu"] == pytest.approx(0.03)


def test_fractions_count_for_each_device() -> None:
    several = {"gpu-fraction": "0.25", "gpu-fraction-num-devices": "3"}
    assert requests(pod("a", annotations=several))["gpu"] == 0.75


def test_claims_divide() -> None:
    snapshot = world(pod("a", gpus="3"))
    shares = fair_shares(queue_claims(snapshot), cluster_total(snapshot))
    assert shares["leaf"]["gpu"].fair == 3
