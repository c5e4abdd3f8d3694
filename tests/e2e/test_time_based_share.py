"""Time-based fair share: of two equal queues, the one with more past usage gets fewer GPUs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.kube import Cluster
from lab.session.lab import Lab
from lab.workloads.namespace import WorkloadNamespace

from .checks import on_gpus
from .contention import DEPARTMENT, GPUS, contend, leaf
from .scheduling_decisions import WAIT
from .shards import shard_changed
from .usage_history import PATH, PORT, history_pod

pytestmark = pytest.mark.kai(">=0.14")


@pytest.mark.disturbs("KAI's scheduler restarts with a usage history", only="kai")
@on_gpus(GPUS)
def test_past_usage_counts_against_a_queue(
    lab: Lab, cluster: Cluster, workloads: WorkloadNamespace, new_queues: Callable[..., dict[str, str]]
) -> None:
    """Without a history, each queue gets two GPUs."""
    names = new_queues(DEPARTMENT, leaf("greedy"), leaf("patient"))
    workloads.submit(history_pod("history", {names["greedy"]: 1.0, names["patient"]: 0.0}))
    workloads.running("history", timeout=WAIT)
    pod = cluster.get("Pod", "history", workloads.namespace)
    assert pod is not None
    address = pod["status"]["podIP"]
    source = {
        "clientType": "prometheus",
        "connectionString": f"http://{address}:{PORT}{PATH}",
        "usageParams": {"windowSize": "1h", "fetchInterval": "1s", "waitTimeout": "60s"},
    }
    with shard_changed(lab, {"kValue": 1.0, "usageDBConfig": source}):
        got = contend(workloads, cluster, names, {"greedy": 3, "patient": 3})
    assert got == {"greedy": 1, "patient": 3}
