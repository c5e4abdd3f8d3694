"""Waiting: evidence, fail-fast, hold, cancel, readiness. Streams are scripted, time is real but short."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

import pytest

from lab.errors import Interrupted, WaitTimeout
from lab.kube import Cluster
from tests.support.kube_fake import (
    CUT,
    EVENTS,
    PODS,
    REFUSED,
    FakeApi,
    Json,
    Stream,
    event,
    listing,
    pod,
    running,
    status,
    wait_for,
)


def test_timeout_shows_states_and_the_newest_events(api: FakeApi, cluster: Cluster) -> None:
    waiting = {
        "name": "main",
        "restartCount": 2,
        "state": {"waiting": {"reason": "ErrImagePull", "message": "no\nroute"}},
    }
    a = pod("a", status={"containerStatuses": [waiting]}, spec={"nodeName": "n1"})
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no GPUs"}
    b = pod("b", status={"conditions": [scheduled]})
    unrelated = event("Failed", "stranger", pod("z"), "2026-01-01T10:00:09Z")
    api.on("GET", PODS, listing(a, b, pod("ok", "Running")))
    api.on("GET", PODS, Stream())
    api.on(
        "GET",
        EVENTS,
        listing(
            event("Late", "second", a, "2026-01-01T10:00:05Z", count=4),
            event("Early", "first", b, "2026-01-01T10:00:01Z"),
            unrelated,
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
    kubectl = "kubectl --kubeconfig /lab/kubeconfig --context kind-kailab-demo"
    assert caught.value.fix == f"inspect with: {kubectl} describe pod -n ns"


def test_timeout_without_objects_shows_the_namespaces_warnings(api: FakeApi, cluster: Cluster) -> None:
    rs = {"kind": "ReplicaSet", "metadata": {"name": "rs", "uid": "u"}}
    normal = {**event("Scaled", "up", rs, "2026-01-01T10:00:02Z"), "type": "Normal"}
    api.on("GET", PODS, listing())
    api.on("GET", PODS, Stream())
    api.on("GET", EVENTS, listing(event("FailedCreate", "gpu sharing is off", rs, "2026-01-01T10:00:01Z"), normal))
    with pytest.raises(WaitTimeout) as caught:
        wait_for(cluster, running(1), timeout=0.05, labels="app=a")
    assert caught.value.evidence == (
        "no Pod in ns with app=a",
        "event 10:00:01 ReplicaSet/rs FailedCreate: gpu sharing is off",
    )
    assert "describe pod -l app=a -n ns" in caught.value.fix


def test_timeout_of_a_workload_shows_its_pods_and_the_log_of_a_crash(api: FakeApi, cluster: Cluster) -> None:
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
    api.on(
        "GET",
        PODS,
        listing(pod("d-1", status={"containerStatuses": [crash]}), pod("d-2", "Running")),
        query={"labelSelector": "app=d"},
    )
    api.on(
        "GET",
        f"{PODS}/d-1/log",
        (200, "unknown key: setOwnr\n"),
        query={"container": "main", "tailLines": "4", "previous": "true"},
    )
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


def test_timeout_of_a_namespaces_deletion_shows_what_prevents_it_and_its_pods(api: FakeApi, cluster: Cluster) -> None:
    reasons = {"NamespaceDeletionContentFailure": "True", "NamespaceContentRemaining": "False"}
    conditions = [{"type": key, "status": value, "reason": "R", "message": "m"} for key, value in reasons.items()]
    meta = {"name": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    space = {"kind": "Namespace", "metadata": meta, "status": {"phase": "Terminating", "conditions": conditions}}
    api.on("GET", "/api/v1/namespaces", listing(space))
    api.on("GET", "/api/v1/namespaces", Stream())
    api.on("GET", PODS, listing(pod("left")))
    api.on("GET", "/api/v1/namespaces/default/events", listing())
    api.on("GET", EVENTS, listing())
    with pytest.raises(WaitTimeout) as caught:
        cluster.wait("Namespace", lambda found: not found, fields="metadata.name=ns", timeout=0, what="gone")
    assert list(caught.value.evidence) == [
        "Namespace ns: Terminating; NamespaceDeletionContentFailure=True: R (m); being deleted",
        "  Pod ns/left: Pending; not ready; not bound, scheduler kai-scheduler",
    ]


def test_unreadable_evidence_does_not_hide_the_rest(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing(pod("a")))
    api.on("GET", PODS, REFUSED, always=True)
    api.on("GET", PODS, Stream(CUT))
    api.on("GET", EVENTS, status(403, "events is forbidden"))
    with pytest.raises(WaitTimeout) as caught:
        wait_for(cluster, running(1), timeout=0.08)
    lines = caught.value.evidence
    assert lines[0].startswith("Pod ns/a: Pending")
    assert "more evidence is not available: GET Event objects in ns: events is forbidden" in lines[1]
    assert lines[2].startswith("API: ")


def test_fail_condition_ends_the_wait_with_its_reason(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing(pod("a")))
    api.on("GET", PODS, Stream(("MODIFIED", pod("a", "Failed", version="2"))))
    api.on("GET", EVENTS, listing())
    started = time.monotonic()
    with pytest.raises(WaitTimeout, match="pods run: a has failed"):
        wait_for(
            cluster,
            running(1),
            timeout=60,
            fail=lambda pods: "a has failed" if pods[0]["status"]["phase"] == "Failed" else None,
        )
    assert time.monotonic() - started < 5


def test_zero_timeout_checks_once(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing(pod("a", "Running")))
    api.on("GET", PODS, Stream(), always=True)
    wait_for(cluster, running(1), timeout=0)


def test_success_takes_precedence_over_the_fail_condition(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing(pod("a", "Running")))
    api.on("GET", PODS, Stream(), always=True)
    wait_for(cluster, running(1), fail=lambda pods: "never")


def test_hold_restarts_when_the_condition_breaks(api: FakeApi, cluster: Cluster) -> None:
    broken = threading.Event()
    api.on("GET", PODS, listing(pod("a")))
    api.on(
        "GET", PODS, Stream(broken, ("MODIFIED", pod("a", "Running", version="2")), ("MODIFIED", pod("a", version="3")))
    )
    started = time.monotonic()
    threading.Timer(0.15, broken.set).start()
    wait_for(cluster, running(0), hold=0.3)
    assert time.monotonic() - started >= 0.45


def test_hold_longer_than_the_timeout_times_out(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing(pod("a")))
    api.on("GET", PODS, Stream())
    api.on("GET", EVENTS, listing())
    with pytest.raises(WaitTimeout):
        wait_for(cluster, running(0), timeout=0.05, hold=1)


def test_constant_changes_do_not_prevent_the_timeout(api: FakeApi, cluster: Cluster) -> None:
    class Endless(Stream):
        def lines(self) -> Iterator[bytes]:
            while not self.given_up.is_set():
                yield b'{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"a","namespace":"ns"}}}'

    api.on("GET", PODS, listing())
    api.on("GET", PODS, Endless())
    api.on("GET", EVENTS, listing())
    with pytest.raises(WaitTimeout):
        wait_for(cluster, lambda pods: False, timeout=0.1)


def test_cancel_ends_a_wait_within_a_second(api: FakeApi, cluster: Cluster) -> None:
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
    api.on("GET", PODS, Stream(same, ("DELETED", pod("a", version="3")), ("ADDED", pod("b", "Running", version="4"))))
    wait_for(cluster, running(1))
    assert [r.getMessage() for r in caplog.records if r.name == "lab.kube.wait"] == [
        "Pod ns/a: Pending; not ready; not bound, scheduler kai-scheduler",
        "Pod ns/a: deleted",
        "Pod ns/b: Running; ready; not bound, scheduler kai-scheduler",
    ]


# --- wait_ready


def test_wait_ready_needs_every_name(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing(pod("a", "Running"), pod("other", "Failed")), query={})
    api.on("GET", PODS, Stream(("ADDED", pod("b", version="2")), ("MODIFIED", pod("b", "Running", version="3"))))
    names = {p["metadata"]["name"] for p in cluster.wait_ready("Pod", ["a", "b"], "ns", 5)}
    assert names == {"a", "b", "other"}
    assert cluster.wait_ready("Pod", [], "ns") == []


def test_wait_ready_by_labels_ignores_pods_being_replaced(api: FakeApi, cluster: Cluster) -> None:
    owner = {"ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "controller": True}]}
    leaving = pod("going", "Running", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    failed = pod("failed", "Failed", metadata=owner)
    api.on("GET", PODS, listing(leaving, failed), query={"labelSelector": "app=a"})
    api.on("GET", PODS, Stream(("ADDED", pod("new", "Running", version="2"))))
    assert len(cluster.wait_ready("Pod", labels="app=a", namespace="ns", timeout=5)) == 3


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        (
            pod("a", "Failed", status={"reason": "UnexpectedAdmissionError"}),
            "has ended: Failed, UnexpectedAdmissionError",
        ),
        (pod("a", "Succeeded"), "pod a has ended: Succeeded"),
        (
            pod(
                "a",
                status={"containerStatuses": [{"name": "m", "state": {"waiting": {"reason": "ErrImageNeverPull"}}}]},
            ),
            "container m: ErrImageNeverPull",
        ),
    ],
)
def test_wait_ready_fails_for_lost_pods(api: FakeApi, cluster: Cluster, lost: Json, reason: str) -> None:
    api.on("GET", PODS, listing(lost))
    api.on("GET", PODS, Stream(), always=True)
    api.on("GET", EVENTS, listing())
    with pytest.raises(WaitTimeout, match=reason):
        cluster.wait_ready("Pod", "a", "ns", 60)
