"""Following several kinds at once, over a scripted API."""

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
    """The first pieces of news."""
    found: list[InformerEvent] = []
    with Informers(sources) as streams:
        while len(found) < count:
            item = streams.take(5)
            assert item is not None, f"only {found}"
            found.append(item)
    return found


def words(item: InformerEvent) -> tuple[str, str, list[tuple[str, str]], bool]:
    return item.source, item.kind, [(c, obj["metadata"]["name"]) for c, obj in item.changes], item.listed


def test_each_kind_is_listed_and_then_followed(api: FakeApi, cluster: Cluster) -> None:
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
    assert sorted(words(item) for item in found[:2]) == [
        ("lab", "Pod", [("ADDED", "a")], True),
        ("lab", "Queue", [("ADDED", "q")], True),
    ]
    assert words(found[2]) == ("lab", "Pod", [("MODIFIED", "a")], False)


def test_an_empty_set_is_news_too(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing())
    api.on("GET", PODS, Stream(), always=True)
    (item,) = collect(1, InformerSource("lab", cluster, ("Pod",)))
    assert words(item) == ("lab", "Pod", [], True)


def test_a_kind_without_its_crd_is_absent_until_it_comes(api: FakeApi, cluster: Cluster) -> None:
    queue = {"metadata": {"name": "q", "resourceVersion": "3"}}
    api.on("GET", QUEUES, (404, "404 page not found"), (404, "404 page not found"), listing(queue), query=ONE)
    api.on("GET", QUEUES, listing(queue), query={})
    api.on("GET", QUEUES, Stream(), always=True)
    absent, there = collect(2, InformerSource("lab", cluster, ("Queue",)))
    assert absent == InformerEvent("lab", "Queue", absent=True)
    assert words(there) == ("lab", "Queue", [("ADDED", "q")], True)


def test_a_refusal_ends_that_kind_alone(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing())
    api.on("GET", PODS, Stream(), always=True)
    api.on("GET", "/api/v1/configmaps", status(403, "not allowed"))
    found = collect(2, InformerSource("lab", cluster, ("Pod", "ConfigMap")))
    refused = {item.kind: item.refused for item in found}
    assert refused["Pod"] == ""
    assert "not allowed (HTTP 403)" in refused["ConfigMap"]


def test_a_break_is_told_and_what_happened_meanwhile_is_one_step(api: FakeApi, cluster: Cluster) -> None:
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
    changes = [words(item)[2] for item in rest if item.changes]
    assert changes == [[("DELETED", "a"), ("ADDED", "b"), ("ADDED", "c")]]


def test_it_is_told_when_a_broken_watch_goes_on(
    api: FakeApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough that the break is noticed, whatever else this machine does.
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


def test_a_server_that_does_not_answer_is_trouble(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", QUEUES, REFUSED, always=True)
    (item,) = collect(1, InformerSource("lab", cluster, ("Queue",)))
    assert "does not answer" in item.trouble


def test_nothing_new_is_none(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing())
    api.on("GET", PODS, Stream(), always=True)
    with Informers([InformerSource("lab", cluster, ("Pod",))]) as streams:
        assert streams.take(5) is not None
        assert streams.take(0) is None
        assert streams.take(0.01) is None


def test_a_cancelled_run_is_interrupted(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing())
    api.on("GET", PODS, Stream(), always=True)
    cluster.cancel = threading.Event()
    with Informers([InformerSource("lab", cluster, ("Pod",))]) as streams:
        assert streams.take(5) is not None
        cluster.cancel.set()
        with pytest.raises(Interrupted):
            streams.take(5)


def test_a_defect_below_reaches_whoever_takes(api: FakeApi, cluster: Cluster) -> None:
    with (
        Informers([InformerSource("lab", cluster, ("Pod",))]) as streams,
        pytest.raises(AssertionError, match="not declared"),
    ):
        streams.take(5)
    api.unexpected.clear()


def test_an_event_loop_wakes_whoever_waits(api: FakeApi, cluster: Cluster) -> None:
    go, seen = threading.Event(), list[str]()
    api.on("GET", PODS, listing(pod("a")))
    api.on("GET", PODS, Stream(go, ("ADDED", pod("b"))))
    handle = lambda event: seen.extend(obj["metadata"]["name"] for _, obj in event.changes)  # noqa: E731
    with EventLoop(Informers([InformerSource("lab", cluster, ("Pod",))]), handle, "test") as loop:
        assert loop.wait_for(lambda: ("lab", "Pod") in loop.listed, 5)
        assert not loop.wait_for(lambda: "b" in seen, 0.05)
        go.set()
        assert loop.wait_for(lambda: "b" in seen, 5)


def test_what_ends_an_event_loop_is_raised_where_somebody_waits(api: FakeApi, cluster: Cluster) -> None:
    def handle(event: InformerEvent) -> None:
        raise ValueError("cannot be handled")

    api.on("GET", PODS, listing())
    api.on("GET", PODS, Stream(), always=True)
    with (
        EventLoop(Informers([InformerSource("lab", cluster, ("Pod",))]), handle, "test") as loop,
        pytest.raises(ValueError, match="cannot be handled"),
    ):
        loop.wait_for(lambda: False, 5)


def test_what_nobody_waited_for_is_raised_at_the_end(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing())
    api.on("GET", PODS, Stream(), always=True)
    loop = EventLoop(Informers([InformerSource("lab", cluster, ("Pod",))]), lambda _: None, "test")

    def block() -> None:
        with loop:
            assert loop.wait_for(lambda: bool(loop.listed), 5)
            loop.fail(ValueError("late"))

    with pytest.raises(ValueError, match="late"):
        block()
