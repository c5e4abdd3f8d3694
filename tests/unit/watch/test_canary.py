"""Canary pods: bound, not bound, left by a killed process; one per queue at a time."""

from __future__ import annotations

import threading

import pytest

from lab.errors import ApiFailed, LabError, WaitTimeout
from lab.watch.canary import Canary, CanaryRounds
from tests.support.api_requests import Call
from tests.support.fake_api_server import FakeApiServer

SPACE = "kailab-watch"


@pytest.fixture
def server() -> FakeApiServer:
    return FakeApiServer()


@pytest.fixture
def canary(server: FakeApiServer) -> Canary:
    return Canary(server.cluster, SPACE, "watch:1", {"kailab": "demo"}, limit=5)


def bind(server: FakeApiServer) -> None:
    def bound(call: Call) -> None:
        if server.get("Pod", call.name, SPACE):
            server.change("Pod", call.name, SPACE, spec={"nodeName": "worker"})

    server.after("create", "Pod", bound)


def test_bound_canary_is_timed_and_deleted(server: FakeApiServer, canary: Canary) -> None:
    bind(server)
    assert 0 <= canary.measure("team") < 5
    assert server.of_kind("Pod") == []
    assert server.log == ["delete Pod canary-team", "create Pod canary-team", "delete Pod canary-team"]


def test_pod_that_stays_is_no_failure_of_the_scheduler(server: FakeApiServer, canary: Canary) -> None:
    bind(server)
    server.fail("delete", "Pod", None, (500, "the kubelet does not answer"))
    assert 0 <= canary.measure("team") < 5


def test_pod_requests_no_gpu_and_is_of_kai(canary: Canary) -> None:
    pod = canary.pod("team")
    assert pod["metadata"]["labels"] == {"kailab": "demo", "kailab.dev/canary": "true", "kai.scheduler/queue": "team"}
    assert pod["spec"]["schedulerName"] == "kai-scheduler"
    (container,) = pod["spec"]["containers"]
    assert {side: set(amounts) for side, amounts in container["resources"].items()} == {"requests": {"cpu", "memory"}}


def test_canary_that_is_not_bound_is_deleted(server: FakeApiServer, canary: Canary) -> None:
    server.cluster.patience = 0.05
    with pytest.raises(WaitTimeout, match="canary pod of queue team is bound"):
        canary.measure("team")
    assert server.of_kind("Pod") == []


def test_canary_of_a_killed_process_is_replaced(server: FakeApiServer, canary: Canary) -> None:
    server.add(canary.pod("team"))
    bind(server)
    canary.measure("team")
    assert server.of_kind("Pod") == []


def test_rounds_measure_each_queue_and_go_on_after_a_failure(server: FakeApiServer, canary: Canary) -> None:
    bind(server)
    server.fail("create", "Pod", (403, "forbidden"), name="canary-b")
    good, bad, enough = list[str](), list[tuple[str, LabError]](), threading.Event()

    def bound(queue: str, _: float) -> None:
        good.append(queue)
        if good.count("b") == 2:
            enough.set()

    with CanaryRounds(canary, lambda: ("a", "b"), 0.0, bound, lambda queue, error: bad.append((queue, error))):
        assert enough.wait(20)
    assert [(queue, type(error)) for queue, error in bad] == [("b", ApiFailed)]
    assert good.count("a") >= 3
    assert server.of_kind("Pod") == []


def test_no_queue_has_two_canaries_at_a_time(server: FakeApiServer, canary: Canary) -> None:
    bind(server)
    most, enough = [0], threading.Event()

    def count(_: Call) -> None:
        most.append(len(server.of_kind("Pod", SPACE)))
        if len(most) > 6:
            enough.set()

    server.after("create", "Pod", count)
    with CanaryRounds(canary, lambda: ("a",), 0.0, lambda *_: None, lambda *_: None):
        assert enough.wait(20)
    assert max(most) == 1
