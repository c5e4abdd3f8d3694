"""The reflector: list, watch, and list again after trouble. Streams are scripted."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lab.errors import ApiFailed
from lab.kube import Cluster
from lab.kube.reflector import Reflector
from lab.kube.transport import TransportError
from tests.support.kube_fake import CUT, PODS, REFUSED, FakeApi, Json, Stream, listing, pod, running, status, wait_for


def test_condition_that_holds_in_the_list_needs_no_watch(api: FakeApi, cluster: Cluster) -> None:
    go = threading.Event()
    api.on("GET", PODS, listing(pod("a", "Running")))
    api.on("GET", PODS, Stream(go), always=True)  # a thread may or may not have opened the watch by then
    (only,) = wait_for(cluster, running(1))
    go.set()
    assert only["kind"] == "Pod"


def test_first_list_is_evaluated_as_a_whole(api: FakeApi, cluster: Cluster) -> None:
    sizes: list[int] = []
    api.on("GET", PODS, listing(pod("a"), pod("b")))
    api.on("GET", PODS, Stream(("MODIFIED", pod("a", "Running", version="11"))))

    def both_or_none(pods: list[Json]) -> bool:
        sizes.append(len(pods))
        return running(1)(pods)

    wait_for(cluster, both_or_none)
    assert sizes == [2, 2]


def test_watch_starts_at_the_version_of_the_list(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing(version="42"), query={"labelSelector": "app=a", "fieldSelector": "spec.nodeName=n"})
    route = api.on("GET", PODS, Stream(("ADDED", pod("a", "Running"))))
    wait_for(cluster, running(1), labels="app=a", fields="spec.nodeName=n")
    sent = route.requests[0]
    assert sent.query == {
        "labelSelector": "app=a",
        "fieldSelector": "spec.nodeName=n",
        "resourceVersion": "42",
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "240",
    }
    assert sent.timeout > 240


def test_ended_watch_is_resumed_from_the_last_version(api: FakeApi, cluster: Cluster) -> None:
    bookmark = ("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "77"}})
    api.on("GET", PODS, listing(version="10"))
    route = api.on(
        "GET",
        PODS,
        Stream(("ADDED", pod("a", version="50")), bookmark, b"", end="close"),
        Stream(("MODIFIED", pod("a", "Running", version="80"))),
    )
    wait_for(cluster, running(1))
    assert [r.query["resourceVersion"] for r in route.requests] == ["10", "77"]


@pytest.mark.parametrize(
    "trouble",
    [
        ("ERROR", status(410, "too old resource version")[1]),
        ("ERROR", status(500, "etcdserver: no leader")[1]),
        CUT,
        b'{"type": "ADDED", "obj',
    ],
)
def test_trouble_in_a_watch_lists_again(api: FakeApi, cluster: Cluster, trouble: Any) -> None:
    api.on("GET", PODS, listing(pod("a")), listing(pod("b"), version="90"))
    route = api.on("GET", PODS, Stream(trouble), Stream(("MODIFIED", pod("b", "Running", version="91"))))
    (only,) = wait_for(cluster, running(1))
    assert only["metadata"]["name"] == "b"
    assert route.requests[1].query["resourceVersion"] == "90"


def test_expired_watch_lists_again(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing(pod("a")), listing(pod("a", "Running", version="5")))
    api.on("GET", PODS, status(410, "Expired"), watch=True)
    api.on("GET", PODS, Stream(), always=True)
    wait_for(cluster, running(1))


def test_wait_survives_a_restart_of_the_server(api: FakeApi, cluster: Cluster) -> None:
    api.on(
        "GET",
        PODS,
        listing(pod("a")),
        *[REFUSED] * 8,
        status(403, "RBAC is not loaded yet"),
        listing(pod("b", "Running")),
    )
    api.on("GET", PODS, Stream(CUT))
    api.on("GET", PODS, Stream(), always=True)
    wait_for(cluster, running(1))


def test_wait_survives_a_server_that_is_still_starting(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, *[REFUSED] * 7, listing(pod("a", "Running")))
    api.on("GET", PODS, Stream(), always=True)
    wait_for(cluster, running(1))


def test_unreachable_server_is_an_api_error_not_a_timeout(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, REFUSED, always=True)
    with pytest.raises(ApiFailed, match=r"127\.0\.0\.1:6443 .*does not answer"):
        wait_for(cluster, running(1), timeout=0.1)


@pytest.mark.parametrize("answer", [status(403, "forbidden"), TransportError("bad certificate", tls=True)])
def test_refused_list_ends_the_wait_at_once(api: FakeApi, cluster: Cluster, answer: Any) -> None:
    api.on("GET", PODS, answer)
    with pytest.raises(ApiFailed, match=r"forbidden|bad certificate"):
        wait_for(cluster, running(1), timeout=60)


def test_kind_is_empty_until_its_crd_exists(api: FakeApi, cluster: Cluster) -> None:
    queues = "/apis/scheduling.run.ai/v2/queues"
    api.on(
        "GET", queues, (404, "404 page not found"), (404, "404 page not found"), listing({"metadata": {"name": "q"}})
    )
    api.on("GET", queues, Stream(), always=True)
    seen: list[int] = []

    def one_queue(queues: list[Json]) -> bool:
        seen.append(len(queues))
        return len(queues) == 1

    cluster.wait("Queue", one_queue, timeout=5, what="queue")
    assert seen == [0, 1]


def pod_reflector(cluster: Cluster) -> Reflector:
    return Reflector(cluster.calls, cluster.kinds.named("Pod"), "ns", {})


def test_relist_continues_the_sequence_of_changes(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing(pod("a"), pod("b"), pod("c")), listing(pod("b"), pod("c", version="9"), pod("d")))
    api.on("GET", PODS, Stream(CUT), Stream(("DELETED", pod("d"))))
    changes: list[tuple[str, str]] = []
    with pod_reflector(cluster) as reflector:
        while ("DELETED", "d") not in changes:
            changes += [(change, obj["metadata"]["name"]) for change, obj in reflector.take(5) or []]
    assert changes == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("ADDED", "c"),
        ("DELETED", "a"),
        ("MODIFIED", "c"),
        ("ADDED", "d"),
        ("DELETED", "d"),
    ]


def test_leaving_the_block_closes_the_watch(api: FakeApi, cluster: Cluster) -> None:
    stream = Stream()
    api.on("GET", PODS, listing())
    api.on("GET", PODS, stream)
    with pod_reflector(cluster) as reflector:
        assert reflector.take(5) == []
        assert reflector.take(0.1) is None
    assert stream.given_up.wait(1)


def test_exception_in_the_reflector_thread_is_raised_to_the_waiter(api: FakeApi, cluster: Cluster) -> None:
    with pytest.raises(AssertionError, match="not declared"):
        wait_for(cluster, running(1))
    api.unexpected.clear()
