"""Polling for a result, and retries of transient errors."""

from __future__ import annotations

import operator
import threading
from pathlib import Path

import pytest

from lab.errors import ApiFailed, Interrupted
from lab.kube import Cluster
from lab.kube.retry import retry
from tests.support.kube_fake import FakeApi


def test_poll_returns_the_first_true_result(cluster: Cluster, pauses: list[float]) -> None:
    answers = iter([0, 0, 3, 4])
    assert cluster.poll(lambda: next(answers), timeout=60, interval=0.5) == 3
    assert pauses == [0.5, 0.5]


def test_poll_returns_the_last_result_at_its_timeout(cluster: Cluster) -> None:
    assert cluster.poll(lambda: ["missing"], until=operator.not_, timeout=0) == ["missing"]


def test_poll_raises_errors_of_the_check(cluster: Cluster) -> None:
    def check() -> bool:
        raise ApiFailed("no")

    with pytest.raises(ApiFailed, match="no"):
        cluster.poll(check, timeout=60)


def test_cancel_ends_a_poll() -> None:
    cluster = Cluster(Path("/lab/kubeconfig"), transport=FakeApi())
    cluster.cancel = threading.Event()
    cluster.cancel.set()
    with pytest.raises(Interrupted):
        cluster.poll(lambda: False, timeout=60)


class Server:
    """Refuses with the given statuses, then answers."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)

    def __call__(self) -> str:
        if self.statuses:
            raise ApiFailed("refused", status=self.statuses.pop(0))
        return "done"


def is_busy(error: ApiFailed) -> bool:
    return error.status == 503


def test_retry_continues_while_the_error_is_transient() -> None:
    slept: list[float] = []
    assert retry(Server(503, 503), when=is_busy, timeout=60, interval=0.2, sleep=slept.append) == "done"
    assert slept == [0.2, 0.2]


def test_retry_raises_a_permanent_error() -> None:
    with pytest.raises(ApiFailed) as caught:
        retry(Server(503, 403, 503), when=is_busy, timeout=60, sleep=lambda _: None)
    assert caught.value.status == 403


@pytest.mark.parametrize("limit", [{"attempts": 2}, {"timeout": 0.0}])
def test_retry_raises_the_last_error_when_its_limit_is_reached(limit: dict[str, float]) -> None:
    with pytest.raises(ApiFailed) as caught:
        retry(Server(503, 503, 503), when=is_busy, sleep=lambda _: None, **limit)  # type: ignore[arg-type]
    assert caught.value.status == 503


def test_retry_interval_doubles_up_to_its_maximum() -> None:
    slept: list[float] = []
    retry(Server(*[503] * 5), when=is_busy, attempts=6, interval=0.2, max_interval=1.0, sleep=slept.append)
    assert slept == [0.2, 0.4, 0.8, 1.0, 1.0]
