"""Workloads before an upgrade: pods, the reservation pod of a shared GPU, queues."""

from __future__ import annotations

from typing import Any

from lab.steps.kai.upgrade.workload_snapshot import WorkloadSnapshot, snapshot_of
from tests.support import builders

Json = dict[str, Any]
UUID = "run.ai/reserve_for_gpu_index"


def pod(name: str, *, space: str = "team", group: str = "", **more: Any) -> Json:
    restarts, pod_group = more.pop("restarts", 0), more.pop("pod_group", "")
    return builders.pod(
        name,
        space,
        labels={"runai-gpu-group": group} if group else {},
        annotations={"pod-group-name": pod_group} if pod_group else {},
        status={"containerStatuses": [{"name": "main", "restartCount": restarts}]},
        **{"uid": f"u-{name}", "node": "worker2", **more},
    )


def reservation(group: str, uuid: str = "GPU-1", uid: str = "u-res") -> Json:
    made = pod(f"gpu-reservation-{group}", space="kai-resource-reservation", group=group, uid=uid)
    made["metadata"]["labels"]["app"] = "kai-resource-reservation"
    made["metadata"]["annotations"][UUID] = uuid
    return made


def queue(name: str, parent: str = "", quota: float = 1.0) -> Json:
    shares = {"gpu": {"quota": quota, "limit": -1, "overQuotaWeight": 1}}
    return builders.queue(name, parent, resources=shares)


def seen(
    *pods: Json, groups: tuple[str, ...] = (), queues: tuple[Json, ...] = (), kai: str = "0.16.8"
) -> WorkloadSnapshot:
    return snapshot_of(kai, pods, [{"metadata": {"name": name, "namespace": "team"}} for name in groups], queues)


HALF = pod("half", group="g1", pod_group="pg-half")
BEFORE = seen(
    HALF, pod("whole"), reservation("g1"), groups=("pg-half",), queues=(queue("default"), queue("test", "default"))
)
