"""Helpers of the isolation suite: a ledger of losses among pods that must stay, and rounds of pods."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import WaitTimeout
from lab.kube.informers import InformerEvent
from lab.objects.views import PodView
from lab.workloads.pods import cpu_pod
from tests.e2e.churn import Ledger, Side, churn
from tests.support.kube_fake import pod

Json = dict[str, Any]


def news(obj: Json, change: str = "MODIFIED", kind: str = "Pod") -> InformerEvent:
    return InformerEvent("host", kind, ((change, obj),))


def ledger() -> Ledger:
    return Ledger({"uid-a": "pod ns/a"}, frozenset({"ns"}))


def test_unchanged_pod_is_no_loss() -> None:
    record = ledger()
    record.hear(news(pod("a", "Running"), "ADDED"))
    record.hear(news(pod("a", "Running")))
    assert (record.losses, record.gaps) == ([], [])


@pytest.mark.parametrize(
    ("obj", "change", "loss"),
    [
        (pod("a", "Running"), "DELETED", "pod ns/a is gone"),
        (pod("a", "Running", metadata={"deletionTimestamp": "now"}), "MODIFIED", "pod ns/a is being deleted"),
        (pod("a", "Failed", status={"reason": "Evicted"}), "MODIFIED", "pod ns/a has ended (Failed Evicted)"),
        (
            pod("a", "Running", status={"containerStatuses": [{"name": "main", "restartCount": 2}]}),
            "MODIFIED",
            "pod ns/a was restarted 2 times",
        ),
    ],
)
def test_loss_is_recorded_once(obj: Json, change: str, loss: str) -> None:
    record = ledger()
    for _ in range(2):
        record.hear(news(obj, change))
    assert record.losses == [loss]


def test_other_pods_may_be_deleted() -> None:
    record = ledger()
    record.hear(news(pod("a", uid="another"), "DELETED"))
    assert record.losses == []


def grouped(name: str, group: str, namespace: str = "ns") -> Json:
    return pod(name, metadata={"annotations": {"pod-group-name": group}, "namespace": namespace})


def test_host_pod_group_on_a_tenant_pod_is_recorded() -> None:
    record = ledger()
    record.hear(news(grouped("b", "pg-host")))
    record.hear(news(grouped("b", "pg-mine")))
    record.hear(news(grouped("c", "pg-host", "team")))
    assert record.overwritten == []
    record.hear(news({"metadata": {"name": "pg-host"}}, kind="PodGroup"))
    assert record.overwritten == ["pod ns/b in PodGroup pg-host of the host"]


def test_broken_watch_is_recorded_as_a_gap() -> None:
    record = ledger()
    record.hear(InformerEvent("host", "Pod", trouble="connection reset"))
    assert record.gaps == ["connection reset"]


class FakeNamespace:
    """Logs its calls."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.log: list[str] = []

    def submit(self, *pods: Json) -> None:
        self.log += [f"submit {pod['metadata']['name']}" for pod in pods]

    def on_host(self, until: Any, *names: str, timeout: float, what: str) -> None:
        assert until(PodView.of({"spec": {"nodeName": "worker"}}))
        self.log.append(f"{what} {' '.join(names)}")

    def running(self, *names: str, timeout: float) -> None:
        self.log.append(f"running {' '.join(names)}")

    def remove(self, *names: str, timeout: float) -> None:
        self.log.append(f"remove {' '.join(names)}")


def sides(*namespaces: FakeNamespace) -> Sequence[Side]:
    return [Side(namespace, lambda number: [cpu_pod(f"p{number}")]) for namespace in namespaces]  # type: ignore[arg-type]


def test_every_side_runs_all_rounds() -> None:
    first, second = FakeNamespace("first"), FakeNamespace("second")
    assert churn(sides(first, second), 5) == {"first": 5, "second": 5}
    assert first.log == second.log
    assert first.log[:6] == ["submit p0", "running p0", "remove p0", "submit p1", "bound p1", "remove p1"]
    assert [line for line in first.log if line.startswith("running")] == ["running p0", "running p4"]


def test_failure_of_one_side_is_raised() -> None:
    namespace = FakeNamespace("first")

    def refuse(*names: str, timeout: float) -> None:
        raise WaitTimeout(f"{names[0]} still exists")

    broken = SimpleNamespace(**{name: getattr(namespace, name) for name in ("submit", "on_host", "running")})
    broken.namespace, broken.remove = "first", refuse
    with pytest.raises(WaitTimeout, match="p0 still exists"):
        churn(sides(broken), 2)
