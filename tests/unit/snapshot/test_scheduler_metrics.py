"""Metrics and log lines of KAI's schedulers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import ApiFailed
from lab.snapshot import scheduler_metrics
from lab.snapshot.scheduler_metrics import samples, scheduler_records

TEXT = """# HELP kai_queue_fair_share_gpu x
kai_queue_fair_share_gpu{queue_display_name="a \\"b\\"",queue_name="q"} 2.5
kai_e2e_scheduling_latency_milliseconds 3
"""


def kai_pod(app: str, namespace: str = "kai-scheduler") -> dict[str, Any]:
    return {"metadata": {"name": f"{app}-1", "namespace": namespace, "labels": {"app": app}}}


def test_only_schedulers_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def raw(proxy: Any, method: str, path: str) -> bytes:
        asked.append(f"{proxy.name}:{proxy.port}{path}")
        if "broken" in proxy.name:
            raise ApiFailed("no")
        return b"" if len(asked) == 1 else TEXT.encode()

    monkeypatch.setattr(scheduler_metrics.Proxy, "raw", raw)
    log = "Evicted task: <team/p>\nother\nReclaimed resources for job <team/x>, evicting reclaimee tasks: <p>."
    cluster: Any = SimpleNamespace(logs=lambda *_, **__: log)
    pods = [kai_pod("kai-scheduler-default"), kai_pod("binder"), kai_pod("scheduler-broken"), kai_pod("scheduler", "x")]
    metrics, lines = scheduler_records(cluster, pods)
    assert asked == [*2 * ["kai-scheduler-default-1:8080/metrics"], "scheduler-broken-1:8080/metrics"]
    assert len(metrics) == 1
    assert len(lines) == 2
    ((labels, value),) = samples(metrics, "kai_queue_fair_share_gpu")
    assert (labels["queue_name"], value) == ("q", 2.5)
