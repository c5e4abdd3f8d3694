"""Recording a run over scripted APIs of a tenant and the host, and when the run has settled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.compare.record import ComparisonRecorder
from lab.compare.recording import CALM, PATIENT, EvictSeen, Settling, evictions, progress
from lab.errors import ApiFailed
from lab.kube import Cluster, informers, reflector
from lab.workloads.namespace import WorkloadNamespace
from tests.support.compare_world import HOST, TENANT, life, seen
from tests.support.kube_fake import FakeApi, Json, Stream, listing, pod, status

PODS, EVENTS, GROUPS = "/api/v1/pods", "/api/v1/events", "/apis/scheduling.run.ai/v2alpha2/podgroups"
ONE = {"limit": "1"}


def fake() -> Iterator[FakeApi]:
    api = FakeApi()
    yield api
    # Threads decide which of the other kinds are read before a test ends, so unused routes are allowed.
    assert api.unexpected == []


tenant_api = pytest.fixture(fake, name="tenant_api")
host_api = pytest.fixture(fake, name="host_api")


@pytest.fixture
def workloads(tenant_api: FakeApi, host_api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> WorkloadNamespace:
    monkeypatch.setattr(reflector, "PAUSE", 0.01)
    monkeypatch.setattr(informers, "ABSENT_SECONDS", 0.01)
    monkeypatch.setattr(informers, "TAKE_SECONDS", 0.05)
    host = Cluster(Path("/lab/kubeconfig"), transport=host_api)
    return WorkloadNamespace("demo", host, Cluster(Path("/lab/tenant"), transport=tenant_api), "ns", "ml")


def serve(api: FakeApi, pods: Stream, *, events: tuple[Json, ...] = (), groups: tuple[Json, ...] = ()) -> None:
    """Serve no pods, then the stream; the other kinds as listed, with empty streams."""
    api.on("GET", PODS, listing())
    api.on("GET", PODS, pods)
    api.on("GET", EVENTS, listing(*events))
    api.on("GET", EVENTS, Stream(), always=True)
    api.on("GET", GROUPS, listing(*groups), query=ONE)
    api.on("GET", GROUPS, listing(*groups), query={})
    api.on("GET", GROUPS, Stream(), always=True)


def synced(name: str, uid: str, tenant: str = "ml") -> Json:
    labels = {"vcluster.loft.sh/managed-by": tenant, "vcluster.loft.sh/namespace": "ns"}
    notes = {
        f"vcluster.loft.sh/object-{key}": value for key, value in (("name", name), ("namespace", "ns"), ("uid", uid))
    }
    made = pod(f"{name}-x-ns-x-ml", uid=f"host-{name}")
    return {
        **made,
        "metadata": {**made["metadata"], "namespace": "vcluster-ml", "labels": labels, "annotations": notes},
    }


def evict(group: str, action: str = "preempt", **more: Any) -> Json:
    return {
        "metadata": {"name": f"e-{group}", "namespace": "ns", "annotations": {"evictor-action-type": action}},
        "involvedObject": {"kind": "PodGroup", "name": group},
        "reason": "Evict",
        **more,
    }


def test_both_sides_are_recorded_without_other_pods(
    workloads: WorkloadNamespace, tenant_api: FakeApi, host_api: FakeApi
) -> None:
    go = threading.Event()
    stranger = {**pod("z"), "metadata": {**pod("z")["metadata"], "namespace": "other"}}
    group = {"metadata": {"name": "pg", "namespace": "ns"}, "spec": {"queue": "test"}}
    steps = ("ADDED", stranger), ("ADDED", pod("a")), ("MODIFIED", pod("a", "Running", version="11"))
    serve(tenant_api, Stream(go, *steps), events=(evict("pg"),), groups=(group,))
    elsewhere = synced("a", "uid-a", tenant="research")
    serve(host_api, Stream(go, ("ADDED", elsewhere), ("ADDED", synced("a", "uid-a"))))
    with ComparisonRecorder(workloads) as recorder:
        recorder.sent("Pod/a")
        go.set()
        arrived = lambda: bool(len(recorder._pods) == 3 and recorder._groups and recorder._evictions)  # noqa: E731
        assert recorder._loop.wait_for(arrived, 30.0)
        assert not recorder.settle(2, 0.0), "a second pod is missing"
        found = recorder.recording(False)
    by_side = {side: [one.pod.view.phase for one in found.pods if one.side == side] for side in (TENANT, HOST)}
    assert by_side == {TENANT: ["Pending", "Running"], HOST: ["Pending"]}
    assert {one.uid for one in found.pods} == {"uid-a"}
    assert {one.pod.synced.name for one in found.pods} == {"a"}
    assert [one.workload for one in found.created] == ["Pod/a"]
    assert [one.group.name for one in found.groups] == ["pg"]
    assert [(one.group, one.action) for one in found.evictions] == [("pg", "preempt")]
    assert [one.at for one in found.pods] == sorted(one.at for one in found.pods)
    assert 0 <= found.created[0].at <= found.pods[0].at <= found.seconds


def test_run_settles_after_a_calm_period(
    workloads: WorkloadNamespace, tenant_api: FakeApi, host_api: FakeApi, monkeypatch: Any
) -> None:
    monkeypatch.setattr("lab.compare.recording.CALM", 0.05)
    serve(tenant_api, Stream(("ADDED", pod("a", "Running"))))
    serve(host_api, Stream())
    with ComparisonRecorder(workloads) as recorder:
        assert recorder.settle(1, 30.0)
        assert recorder.recording(True).seconds < 20


def test_watch_errors_are_recorded(workloads: WorkloadNamespace, tenant_api: FakeApi, host_api: FakeApi) -> None:
    serve(tenant_api, Stream())
    host_api.on("GET", PODS, listing())
    host_api.on("GET", PODS, Stream())
    host_api.on("GET", EVENTS, status(403, "not allowed"))
    host_api.on("GET", GROUPS, (404, "no"), query=ONE, always=True)
    with ComparisonRecorder(workloads) as recorder:
        assert recorder._loop.wait_for(lambda: bool(recorder._troubles), 30.0)
        (trouble,) = recorder.recording(False).troubles
    assert trouble.startswith("Event of the host: ")
    assert "not allowed" in trouble


def test_watch_error_is_raised_by_settle(workloads: WorkloadNamespace, tenant_api: FakeApi, host_api: FakeApi) -> None:
    serve(tenant_api, Stream())
    serve(host_api, Stream())
    with ComparisonRecorder(workloads) as recorder:
        recorder._loop.fail(ApiFailed("gone"))
        with pytest.raises(ApiFailed, match="gone"):
            recorder.settle(1, 30.0)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (evict("pg", "reclaim"), [EvictSeen(3.0, "pg", "reclaim")]),
        (evict("pg", reason="NotReady"), []),
        (evict("pg", involvedObject={"kind": "Pod", "name": "pg"}), []),
    ],
)
def test_evictions_are_read_from_events(event: Json, expected: list[EvictSeen]) -> None:
    assert evictions(3.0, event) == expected


REFUSED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}]}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"node": "n", "ready": True}, "done"),
        ({"phase": "Succeeded"}, "done"),
        ({"phase": "Failed"}, "done"),
        ({"node": "n", "phase": "Running"}, "moving Running n False"),
        ({}, "moving Pending  False"),
        ({"status": REFUSED}, "refused"),
        ({"status": REFUSED, "node": "n"}, "moving Pending n False"),
        ({"node": "n", "ready": True, "meta": {"deletionTimestamp": "x"}}, "moving Running n True"),
    ],
)
def test_progress_of_a_pod(more: dict[str, Any], expected: str) -> None:
    assert progress(seen("a", 0.0, **more).pod.view) == expected


def settling(*pods: Any) -> Settling:
    found = Settling()
    for one in pods:
        found.note(one)
    return found


def test_calm_period_depends_on_unsettled_pods() -> None:
    waits = seen("b", 3.0, status=REFUSED)
    assert settling(*life("a")).calm(1) == CALM
    assert settling(*life("a")).calm(2) is None, "one pod is missing"
    assert settling(*life("a", running=None)).calm(1) is None
    assert settling(*life("a"), waits).calm(2) == PATIENT
    assert settling(*life("a"), seen("a", 5.0, gone=True)).calm(1) == CALM


def test_annotations_do_not_count_as_a_change() -> None:
    found = settling(*life("a", running=2.0), seen("a", 9.0, node="worker", ready=True, annotations={"new": "1"}))
    assert found.changed == 2.0
