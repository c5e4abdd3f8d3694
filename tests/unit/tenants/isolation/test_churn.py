"""What the isolation suite stands on: a ledger of what happens to pods that must stay, and rounds of pods."""

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


def test_a_pod_that_stays_as_it_is_is_no_loss() -> None:
    book = ledger()
    book.hear(news(pod("a", "Running"), "ADDED"))
    book.hear(news(pod("a", "Running")))
    assert (book.losses, book.gaps) == ([], [])


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
def test_a_loss_is_told_once(obj: Json, change: str, loss: str) -> None:
    book = ledger()
    for _ in range(2):
        book.hear(news(obj, change))
    assert book.losses == [loss]


def test_others_may_come_and_go() -> None:
    book = ledger()
    book.hear(news(pod("a", uid="another"), "DELETED"))
    assert book.losses == []


def grouped(name: str, group: str, namespace: str = "ns") -> Json:
    return pod(name, metadata={"annotations": {"pod-group-name": group}, "namespace": namespace})


def test_a_pod_group_of_the_host_on_a_tenants_pod_is_remembered() -> None:
    book = ledger()
    book.hear(news(grouped("b", "pg-host")))
    book.hear(news(grouped("b", "pg-mine")))
    book.hear(news(grouped("c", "pg-host", "team")))
    assert book.overwritten == []
    book.hear(news({"metadata": {"name": "pg-host"}}, kind="PodGroup"))
    assert book.overwritten == ["pod ns/b in PodGroup pg-host of the host"]


def test_a_watch_that_breaks_off_is_told() -> None:
    book = ledger()
    book.hear(InformerEvent("host", "Pod", trouble="connection reset"))
    assert book.gaps == ["connection reset"]


class FakePlace:
    """Says what is asked of it."""

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


def sides(*places: FakePlace) -> Sequence[Side]:
    return [Side(place, lambda number: [cpu_pod(f"p{number}")]) for place in places]  # type: ignore[arg-type]


def test_every_side_has_its_rounds() -> None:
    here, there = FakePlace("here"), FakePlace("there")
    assert churn(sides(here, there), 5) == {"here": 5, "there": 5}
    assert here.log == there.log
    assert here.log[:6] == ["submit p0", "running p0", "remove p0", "submit p1", "bound p1", "remove p1"]
    assert [line for line in here.log if line.startswith("running")] == ["running p0", "running p4"]


def test_trouble_of_one_side_is_raised() -> None:
    place = FakePlace("here")

    def refuse(*names: str, timeout: float) -> None:
        raise WaitTimeout(f"{names[0]} does not go")

    broken = SimpleNamespace(**{name: getattr(place, name) for name in ("submit", "on_host", "running")})
    broken.namespace, broken.remove = "here", refuse
    with pytest.raises(WaitTimeout, match="p0 does not go"):
        churn(sides(broken), 2)
