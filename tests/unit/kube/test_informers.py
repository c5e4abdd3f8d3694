"""Informers of several kinds, over a scripted API."""

from __future__ import annotations

import threading

import pytest

from lab.errors import Interrupted
from lab.kube import Cluster, informers, reflector
from lab.kube.informers import EventLoop, InformerEvent, Informers, InformerSource
from tests.support.kube_fake import CUT, REFUSED, FakeApi, Stream, listing, pod, status

PODS = "/api/v1/pods"
QUEUES = "/apis/scheduling.run.ai/v2/queues"
ONE = {"limit": "1"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informers, "ABSENT_SECONDS", 0.01)
    monkeypatch.setattr(informers, "TAKE_SECONDS", 0.05)


def collect(count: int, *sources: InformerSource) -> list[InformerEvent]:
    """Return the first events."""
    found: list[InformerEvent] = []
    with Informers(sources) as streams:
        while len(found) < count:
            item = streams.take(5)
            assert item is not None, f"only {found}"
            found.append(item)
    return found


def summary(item: InformerEvent) -> tuple[str, str, list[tuple[str, str]], bool]:
    return item.source, item.kind, [(c, obj["metadata"]["name"]) for c, obj in item.changes], item.listed


def test_each_kind_is_listed_and_then_watched(api: FakeApi, cluster: Cluster) -> None:
    go = threading.Event()
    queue = {"metadata": {"name": "q", "resourceVersion": "3"}}
    api.on("GET", PODS, listing(pod("a")))
    api.on("GET", PODS, Stream(go, ("MODIFIED", pod("a", "Running", version="11"))))
    api.on("GET", QUEUES, listing(queue), query=ONE)
    api.on("GET", QUEUES, listing(queue), query={})
    api.on("GET", QUEUES, Stream(), always=True)
    found: list[InformerEvent] = []
    with Informers([InformerSource("lab", cluster, ("Pod", "Queue"))]) as streams:
        while len(found) < 3:
            item = streams.take(5)
            assert item is not None
            found.append(item)
            if len(found) == 2:
                go.set()
    assert sorted(summary(item) for item in found[:2]) == [
        ("lab", "Pod", [("ADDED", "a")], True),
        ("lab", "Queue", [("ADDED", "q")], True),
    ]
    assert summary(found[2]) == ("lab", "Pod", [("MODIFIED", "a")], False)


def test_empty_list_is_an_event(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing())
    api.on("GET", PODS, Stream(), always=True)
    (item,) = collect(1, InformerSource("lab", cluster, ("Pod",)))
    assert summary(item) == ("lab", "Pod", [], True)


def test_kind_is_absent_until_its_crd_exists(api: FakeApi, cluster: Cluster) -> None:
    queue = {"metadata": {"name": "q", "resourceVersion": "3"}}
    api.on("GET", QUEUES, (404, "404 page not found"), (404, "404 page not found"), listing(queue), query=ONE)
    api.on("GET", QUEUES, listing(queue), query={})
    api.on("GET", QUEUES, Stream(), always=True)
    absent, listed = collect(2, InformerSource("lab", cluster, ("Queue",)))
    assert absent == InformerEvent("lab", "Queue", absent=True)
    assert summary(listed) == ("lab", "Queue", [("ADDED", "q")], True)


def test_refused_kind_does_not_stop_the_others(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing())
    api.on("GET", PODS, Stream(), always=True)
    api.on("GET", "/api/v1/configmaps", status(403, "not allowed"))
    found = collect(2, InformerSource("lab", cluster, ("Pod", "ConfigMap")))
    refused = {item.kind: item.refused for item in found}
    assert refused["Pod"] == ""
    assert "not allowed (HTTP 403)" in refused["ConfigMap"]


def test_changes_during_a_broken_watch_are_one_event(api: FakeApi, cluster: Cluster) -> None:
    broken = threading.Event()
    api.on("GET", PODS, listing(pod("a")), REFUSED, listing(pod("b"), pod("c"), version="20"))
    api.on("GET", PODS, Stream(broken, CUT))
    api.on("GET", PODS, Stream(), always=True)
    with Informers([InformerSource("lab", cluster, ("Pod",))]) as streams:
        first = streams.take(5)
        assert first is not None
        assert first.listed
        broken.set()
        rest: list[InformerEvent] = []
        while not any(item.changes for item in rest):
            item = streams.take(5)
            assert item is not None, f"only {rest}"
            rest.append(item)
    changes = [summary(item)[2] for item in rest if item.changes]
    assert changes == [[("DELETED", "a"), ("ADDED", "b"), ("ADDED", "c")]]


def test_resumed_watch_is_an_event(api: FakeApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    # Long enough to notice the break on a busy machine.
    monkeypatch.setattr(reflector, "PAUSE", 0.3)
    broken = threading.Event()
    api.on("GET", PODS, listing(pod("a")), listing(pod("a")))
    api.on("GET", PODS, Stream(broken, CUT))
    api.on("GET", PODS, Stream(), always=True)
    with Informers([InformerSource("lab", cluster, ("Pod",))]) as streams:
        assert streams.take(5) is not None
        broken.set()
        assert streams.take(5) == InformerEvent("lab", "Pod", trouble="Connection reset by peer")
        assert streams.take(5) == InformerEvent("lab", "Pod")


def test_unreachable_server_is_reported_as_trouble(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", QUEUES, REFUSED, always=True)
    (item,) = collect(1, InformerSource("lab", cluster, ("Queue",)))
    assert "does not answer" in item.trouble


def test_take_returns_none_without_events(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing())
    api.on("GET", PODS, Stream(), always=True)
    with Informers([InformerSource("lab", cluster, ("Pod",))]) as streams:
        assert streams.take(5) is not None
        assert streams.take(0) is None
        assert streams.take(0.01) is None


def test_cancel_interrupts_take(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing())
    api.on("GET", PODS, Stream(), always=True)
    cluster.cancel = threading.Event()
    with Informers([InformerSource("lab", cluster, ("Pod",))]) as streams:
        assert streams.take(5) is not None
        cluster.cancel.set()
        with pytest.raises(Interrupted):
            streams.take(5)


def test_exception_in_a_reflector_thread_is_raised_by_take(api: FakeApi, cluster: Cluster) -> None:
    with (
        Informers([InformerSource("lab", cluster, ("Pod",))]) as streams,
        pytest.raises(AssertionError, match="not declared"),
    ):
        streams.take(5)
    api.unexpected.clear()


def test_event_loop_wakes_waiters(api: FakeApi, cluster: Cluster) -> None:
    go, seen = threading.Event(), list[str]()
    api.on("GET", PODS, listing(pod("a")))
    api.on("GET", PODS, Stream(go, ("ADDED", pod("b"))))
    handle = lambda event: seen.extend(obj["metadata"]["name"] for _, obj in event.changes)  # noqa: E731
    with EventLoop(Informers([InformerSource("lab", cluster, ("Pod",))]), handle, "test") as loop:
        assert loop.wait_for(lambda: ("lab", "Pod") in loop.listed, 5)
        assert not loop.wait_for(lambda: "b" in seen, 0.05)
        go.set()
        assert loop.wait_for(lambda: "b" in seen, 5)


def test_handler_error_is_raised_to_the_waiter(api: FakeApi, cluster: Cluster) -> None:
    def handle(event: InformerEvent) -> None:
        raise ValueError("cannot be handled")

    api.on("GET", PODS, listing())
    api.on("GET", PODS, Stream(), always=True)
    with (
        EventLoop(Informers([InformerSource("lab", cluster, ("Pod",))]), handle, "test") as loop,
        pytest.raises(ValueError, match="cannot be handled"),
    ):
        loop.wait_for(lambda: False, 5)


def test_error_without_a_waiter_is_raised_at_the_end_of_the_block(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing())
    api.on("GET", PODS, Stream(), always=True)
    loop = EventLoop(Informers([InformerSource("lab", cluster, ("Pod",))]), lambda _: None, "test")

    def block() -> None:
        with loop:
            assert loop.wait_for(lambda: bool(loop.listed), 5)
            loop.fail(ValueError("late"))

    with pytest.raises(ValueError, match="late"):
        block()
