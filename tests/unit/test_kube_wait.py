"""Watching and waiting: evidence, fail-fast, cancel. Streams are scripted, time is real but short."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kube_fake import CUT, REFUSED, FakeApi, Json, Stream, listing, pod, status

from lab.errors import ApiFailed, Interrupted, WaitTimeout
from lab.kube import Cluster, follow, wait
from lab.kube.transport import TransportError

PODS = "/api/v1/namespaces/ns/pods"
EVENTS = "/api/v1/namespaces/ns/events"


@pytest.fixture
def api() -> Iterator[FakeApi]:
    fake = FakeApi()
    yield fake
    if unmet := fake.unmet():
        pytest.fail("\n".join(unmet), pytrace=False)


@pytest.fixture
def cluster(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(follow, "PAUSE", 0.01)
    monkeypatch.setattr(wait, "FIRST_LIST", 0.3)
    made = Cluster(Path("/lab/kubeconfig"), transport=api)
    monkeypatch.setattr(made.calls, "pause", lambda seconds: None)
    return made


def running(count: int) -> Any:
    return lambda pods: sum(p["status"]["phase"] == "Running" for p in pods) == count


def event(reason: str, message: str, about: Json, at: str, **more: Any) -> Json:
    meta = about["metadata"]
    involved = {"kind": about["kind"], "name": meta["name"], "namespace": "ns", "uid": meta["uid"]}
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": involved,
        "lastTimestamp": at,
        **more,
    }


def wait_for(cluster: Cluster, predicate: Any, timeout: float = 5, **more: Any) -> list[Json]:
    return cluster.wait("Pod", predicate, namespace="ns", timeout=timeout, what="pods run", **more)


# --- list and watch


def test_what_already_holds_needs_no_watch(api: FakeApi, cluster: Cluster) -> None:
    go = threading.Event()
    api.on("GET", PODS, listing(pod("a", "Running")))
    api.on("GET", PODS, Stream(go), always=True)  # whether the watch is opened by then is a matter of threads
    (only,) = wait_for(cluster, running(1))
    go.set()
    assert only["kind"] == "Pod"


def test_the_first_list_is_judged_as_a_whole(api: FakeApi, cluster: Cluster) -> None:
    sizes: list[int] = []
    api.on("GET", PODS, listing(pod("a"), pod("b")))
    api.on("GET", PODS, Stream(("MODIFIED", pod("a", "Running", version="11"))))

    def both_or_none(pods: list[Json]) -> bool:
        sizes.append(len(pods))
        return running(1)(pods)

    wait_for(cluster, both_or_none)
    assert sizes == [2, 2]


def test_watch_goes_on_from_the_version_of_the_list(api: FakeApi, cluster: Cluster) -> None:
    api.on(
        "GET",
        PODS,
        listing(version="42"),
        query={"labelSelector": "app=a", "fieldSelector": "spec.nodeName=n"},
    )
    route = api.on("GET", PODS, Stream(("ADDED", pod("a", "Running"))))
    wait_for(cluster, running(1), labels="app=a", fields="spec.nodeName=n")
    sent = route.requests[0]
    assert sent.query == {
        "labelSelector": "app=a", "fieldSelector": "spec.nodeName=n", "resourceVersion": "42",
        "watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": "240",
    }  # fmt: skip
    assert sent.timeout > 240


def test_a_watch_that_ends_is_renewed_from_the_last_version(api: FakeApi, cluster: Cluster) -> None:
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


def test_a_watch_refused_with_410_lists_again(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing(pod("a")), listing(pod("a", "Running", version="5")))
    api.on("GET", PODS, status(410, "Expired"), watch=True)
    api.on("GET", PODS, Stream(), always=True)
    wait_for(cluster, running(1))


def test_restart_of_the_server_during_a_wait_is_survived(api: FakeApi, cluster: Cluster) -> None:
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


def test_a_server_that_is_still_starting_is_waited_for(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, *[REFUSED] * 7, listing(pod("a", "Running")))
    api.on("GET", PODS, Stream(), always=True)
    wait_for(cluster, running(1))


def test_a_server_that_never_answers_is_no_timeout(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, REFUSED, always=True)
    with pytest.raises(ApiFailed, match=r"127\.0\.0\.1:6443 .*does not answer"):
        wait_for(cluster, running(1), timeout=0.1)


@pytest.mark.parametrize("answer", [status(403, "forbidden"), TransportError("bad certificate", tls=True)])
def test_a_refused_list_ends_the_wait_at_once(api: FakeApi, cluster: Cluster, answer: Any) -> None:
    api.on("GET", PODS, answer)
    with pytest.raises(ApiFailed, match=r"forbidden|bad certificate"):
        wait_for(cluster, running(1), timeout=60)


def test_a_kind_without_its_crd_is_an_empty_set_until_it_comes(api: FakeApi, cluster: Cluster) -> None:
    queues = "/apis/scheduling.run.ai/v2/queues"
    api.on(
        "GET",
        queues,
        (404, "404 page not found"),
        (404, "404 page not found"),
        listing({"metadata": {"name": "q"}}),
    )
    api.on("GET", queues, Stream(), always=True)
    seen: list[int] = []

    def one(queues: list[Json]) -> bool:
        seen.append(len(queues))
        return len(queues) == 1

    cluster.wait("Queue", one, timeout=5, what="queue")
    assert seen == [0, 1]


def test_watch_yields_changes_across_a_new_list(api: FakeApi, cluster: Cluster) -> None:
    api.on(
        "GET", PODS, listing(pod("a"), pod("b"), pod("c")), listing(pod("b"), pod("c", version="9"), pod("d"))
    )
    api.on("GET", PODS, Stream(CUT), Stream(("DELETED", pod("d"))))
    changes = []
    for kind, obj in cluster.watch("Pod", "ns", timeout=5):
        changes.append((kind, obj["metadata"]["name"]))
        if (kind, obj["metadata"]["name"]) == ("DELETED", "d"):
            break
    assert changes == [
        ("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c"),
        ("DELETED", "a"), ("MODIFIED", "c"), ("ADDED", "d"), ("DELETED", "d"),
    ]  # fmt: skip


def test_watch_ends_with_its_time(api: FakeApi, cluster: Cluster) -> None:
    stream = Stream()
    api.on("GET", PODS, listing())
    api.on("GET", PODS, stream)
    assert list(cluster.watch("Pod", "ns", timeout=0.1)) == []
    assert stream.given_up.wait(1)


def test_a_defect_below_reaches_the_waiter(api: FakeApi, cluster: Cluster) -> None:
    with pytest.raises(AssertionError, match="not declared"):
        wait_for(cluster, running(1))
    api.unexpected.clear()


# --- the judgement


def test_timeout_shows_states_and_the_newest_events(api: FakeApi, cluster: Cluster) -> None:
    waiting = {
        "name": "main",
        "restartCount": 2,
        "state": {"waiting": {"reason": "ErrImagePull", "message": "no\nroute"}},
    }
    a = pod("a", status={"containerStatuses": [waiting]}, spec={"nodeName": "n1"})
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no GPUs"}
    b = pod("b", status={"conditions": [scheduled]})
    stranger = event("Failed", "stranger", pod("z"), "2026-01-01T10:00:09Z")
    api.on("GET", PODS, listing(a, b, pod("ok", "Running")))
    api.on("GET", PODS, Stream())
    api.on(
        "GET",
        EVENTS,
        listing(
            event("Late", "second", a, "2026-01-01T10:00:05Z", count=4),
            event("Early", "first", b, "2026-01-01T10:00:01Z"),
            stranger,
        ),
    )
    with pytest.raises(WaitTimeout) as caught:
        wait_for(cluster, running(3), timeout=0.05)
    assert caught.value.what == "pods run: not within 0.05 s"
    bound = "not bound, scheduler kai-scheduler"
    assert caught.value.evidence == (
        "Pod ns/a: Pending; not ready; on n1; main waits: ErrImagePull (no route); 2 restarts",
        f"Pod ns/b: Pending; not ready; {bound}; PodScheduled=False: Unschedulable (no GPUs)",
        "Pod ns/ok: Running; ready; not bound, scheduler kai-scheduler",
        "event 10:00:01 Pod/b Early: first",
        "event 10:00:05 ×4 Pod/a Late: second",
    )
    assert caught.value.fix == "look closer: kubectl --kubeconfig /lab/kubeconfig describe pod -n ns"


def test_timeout_without_objects_shows_the_namespaces_warnings(api: FakeApi, cluster: Cluster) -> None:
    rs = {"kind": "ReplicaSet", "metadata": {"name": "rs", "uid": "u"}}
    normal = {**event("Scaled", "up", rs, "2026-01-01T10:00:02Z"), "type": "Normal"}
    api.on("GET", PODS, listing())
    api.on("GET", PODS, Stream())
    api.on(
        "GET",
        EVENTS,
        listing(event("FailedCreate", "gpu sharing is off", rs, "2026-01-01T10:00:01Z"), normal),
    )
    with pytest.raises(WaitTimeout) as caught:
        wait_for(cluster, running(1), timeout=0.05, labels="app=a")
    assert caught.value.evidence == (
        "no Pod in ns with app=a",
        "event 10:00:01 ReplicaSet/rs FailedCreate: gpu sharing is off",
    )
    assert "describe pod -l app=a -n ns" in caught.value.fix


def test_timeout_of_a_workload_shows_its_pods_and_what_crashed(api: FakeApi, cluster: Cluster) -> None:
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "ns", "uid": "ud", "resourceVersion": "1", "generation": 1},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}},
        "status": {
            "observedGeneration": 1,
            "conditions": [{"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"}],
        },
    }
    crash = {"name": "main", "restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    path = "/apis/apps/v1/namespaces/ns/deployments"
    api.on("GET", path, listing(deployment), query={"fieldSelector": "metadata.name=d"})
    api.on("GET", path, Stream())
    api.on("GET", PODS, listing(pod("d-1", status={"containerStatuses": [crash]}), pod("d-2", "Running")),
           query={"labelSelector": "app=d"})  # fmt: skip
    api.on("GET", f"{PODS}/d-1/log", (200, "unknown key: setOwnr\n"),
           query={"container": "main", "tailLines": "4", "previous": "true"})  # fmt: skip
    api.on("GET", EVENTS, listing())
    with pytest.raises(WaitTimeout) as caught:
        cluster.wait_ready("Deployment", "d", "ns", 0.05)
    bound = "not bound, scheduler kai-scheduler"
    assert caught.value.evidence == (
        "Deployment ns/d: 0 of 2 available; Available=False: MinimumReplicasUnavailable",
        f"  Pod ns/d-1: Pending; not ready; {bound}; main waits: CrashLoopBackOff; 5 restarts",
        "log of d-1/main: unknown key: setOwnr",
    )
    assert caught.value.what == "Deployment d ready: not within 0.05 s"


def test_evidence_that_cannot_be_read_hides_nothing(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing(pod("a")))
    api.on("GET", PODS, REFUSED, always=True)
    api.on("GET", PODS, Stream(CUT))
    api.on("GET", EVENTS, status(403, "events is forbidden"))
    with pytest.raises(WaitTimeout) as caught:
        wait_for(cluster, running(1), timeout=0.08)
    lines = caught.value.evidence
    assert lines[0].startswith("Pod ns/a: Pending")
    assert "more cannot be read: GET Event objects in ns: events is forbidden" in lines[1]
    assert lines[2].startswith("API: ")


def test_fail_fast_stops_at_once_with_the_reason(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing(pod("a")))
    api.on("GET", PODS, Stream(("MODIFIED", pod("a", "Failed", version="2"))))
    api.on("GET", EVENTS, listing())
    started = time.monotonic()
    with pytest.raises(WaitTimeout, match="pods run: a has failed"):
        wait_for(
            cluster, running(1), timeout=60,
            fail=lambda pods: "a has failed" if pods[0]["status"]["phase"] == "Failed" else None,
        )  # fmt: skip
    assert time.monotonic() - started < 5


def test_success_goes_before_fail_fast(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing(pod("a", "Running")))
    api.on("GET", PODS, Stream(), always=True)
    wait_for(cluster, running(1), fail=lambda pods: "never")


def test_hold_starts_anew_when_the_condition_breaks(api: FakeApi, cluster: Cluster) -> None:
    broken = threading.Event()
    api.on("GET", PODS, listing(pod("a")))
    api.on(
        "GET",
        PODS,
        Stream(broken, ("MODIFIED", pod("a", "Running", version="2")), ("MODIFIED", pod("a", version="3"))),
    )
    threading.Timer(0.15, broken.set).start()
    started = time.monotonic()
    wait_for(cluster, running(0), hold=0.3)
    assert time.monotonic() - started >= 0.45


def test_hold_that_does_not_fit_is_a_timeout(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing(pod("a")))
    api.on("GET", PODS, Stream())
    api.on("GET", EVENTS, listing())
    with pytest.raises(WaitTimeout):
        wait_for(cluster, running(0), timeout=0.05, hold=1)


def test_a_set_that_never_rests_times_out_too(api: FakeApi, cluster: Cluster) -> None:
    class Endless(Stream):
        def lines(self) -> Iterator[bytes]:
            while not self.given_up.is_set():
                yield b'{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"a","namespace":"ns"}}}'

    api.on("GET", PODS, listing())
    api.on("GET", PODS, Endless())
    api.on("GET", EVENTS, listing())
    with pytest.raises(WaitTimeout):
        wait_for(cluster, lambda pods: False, timeout=0.1)


def test_cancel_stops_a_wait_within_a_second(api: FakeApi, cluster: Cluster) -> None:
    stream = Stream()
    api.on("GET", PODS, listing())
    api.on("GET", PODS, stream)
    cluster.cancel = threading.Event()
    threading.Timer(0.1, cluster.cancel.set).start()
    started = time.monotonic()
    with pytest.raises(Interrupted):
        wait_for(cluster, running(1), timeout=60)
    assert time.monotonic() - started < 1
    assert stream.given_up.wait(1)


def test_only_changes_are_logged(api: FakeApi, cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "lab.kube.wait")
    api.on("GET", PODS, listing(pod("a")))
    same = ("MODIFIED", pod("a", version="2", metadata={"labels": {"x": "y"}}))
    api.on(
        "GET",
        PODS,
        Stream(same, ("DELETED", pod("a", version="3")), ("ADDED", pod("b", "Running", version="4"))),
    )
    wait_for(cluster, running(1))
    assert [r.getMessage() for r in caplog.records if r.name == "lab.kube.wait"] == [
        "Pod ns/a: Pending; not ready; not bound, scheduler kai-scheduler",
        "Pod ns/a: gone",
        "Pod ns/b: Running; ready; not bound, scheduler kai-scheduler",
    ]


# --- wait_ready


def test_wait_ready_needs_every_name(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing(pod("a", "Running"), pod("other", "Failed")), query={})
    api.on(
        "GET", PODS, Stream(("ADDED", pod("b", version="2")), ("MODIFIED", pod("b", "Running", version="3")))
    )
    names = {p["metadata"]["name"] for p in cluster.wait_ready("Pod", ["a", "b"], "ns", 5)}
    assert names == {"a", "b", "other"}
    assert cluster.wait_ready("Pod", [], "ns") == []


def test_wait_ready_by_labels_leaves_out_pods_being_replaced(api: FakeApi, cluster: Cluster) -> None:
    owner = {"ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "controller": True}]}
    leaving = pod("going", "Running", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    failed = pod("failed", "Failed", metadata=owner)
    api.on("GET", PODS, listing(leaving, failed), query={"labelSelector": "app=a"})
    api.on("GET", PODS, Stream(("ADDED", pod("new", "Running", version="2"))))
    assert len(cluster.wait_ready("Pod", labels="app=a", namespace="ns", timeout=5)) == 3


@pytest.mark.parametrize(
    ("hopeless", "reason"),
    [
        (
            pod("a", "Failed", status={"reason": "UnexpectedAdmissionError"}),
            "has ended: Failed, UnexpectedAdmissionError",
        ),
        (pod("a", "Succeeded"), "pod a has ended: Succeeded"),
        (
            pod(
                "a",
                status={
                    "containerStatuses": [
                        {"name": "m", "state": {"waiting": {"reason": "ErrImageNeverPull"}}}
                    ]
                },
            ),
            "container m: ErrImageNeverPull",
        ),
    ],
)
def test_wait_ready_gives_up_on_lost_pods(
    api: FakeApi, cluster: Cluster, hopeless: Json, reason: str
) -> None:
    api.on("GET", PODS, listing(hopeless))
    api.on("GET", PODS, Stream(), always=True)
    api.on("GET", EVENTS, listing())
    with pytest.raises(WaitTimeout, match=reason):
        cluster.wait_ready("Pod", "a", "ns", 60)
