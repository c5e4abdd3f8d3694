"""Cluster snapshots: kinds read, kinds absent, redaction, saving and loading."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lab.errors import ApiFailed
from lab.kube import Cluster
from lab.serialization import to_json
from lab.snapshot.cluster_snapshot import KINDS, ClusterSnapshot, take
from tests.support.kube_fake import FakeApi, event, listing, pod, status

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
QUEUES = "/apis/scheduling.run.ai/v2/queues"


def cluster(api: FakeApi) -> Cluster:
    return Cluster(Path("/k"), transport=api)


def test_take_reads_all_kinds_and_marks_absent_ones() -> None:
    api = FakeApi()
    api.on("GET", PODS, listing(pod("a", "Running"), pod("b")))
    api.on("GET", QUEUES, status(404, "no such path"))
    api.on("GET", NODES, status(403, "not for you"))
    snapshot = take(cluster(api), kinds=("Pod", "Queue", "Node"))
    assert [view.name for view in snapshot.pods] == ["a", "b"]
    assert snapshot.absent == {"Queue", "Node"}
    assert (snapshot.queues, snapshot.nodes) == ((), ())
    assert (snapshot.has("Pod"), snapshot.has("Queue")) == (True, False)
    assert snapshot.at.tzinfo is UTC


def test_kind_without_objects_is_not_absent() -> None:
    api = FakeApi()
    api.on("GET", QUEUES, listing())
    assert take(cluster(api), kinds=("Queue",)).has("Queue")


def test_unauthorized_read_is_an_error() -> None:
    api = FakeApi()
    api.on("GET", PODS, status(401, "Unauthorized"))
    with pytest.raises(ApiFailed, match="Unauthorized"):
        take(cluster(api), kinds=("Pod",))


def test_kind_not_read_in_time_is_absent_and_reported() -> None:
    api, hold = FakeApi(), threading.Event()

    class Slow(FakeApi):
        def send(self, method: str, path: str, *rest: Any) -> Any:
            if path == NODES:
                hold.wait(10)
            return api.send(method, path, *rest)

    api.on("GET", PODS, listing(pod("a")))
    api.on("GET", NODES, listing())
    try:
        snapshot = take(cluster(Slow()), kinds=("Pod", "Node"), timeout=0.3)
    finally:
        hold.set()
    assert snapshot.absent == {"Node"}
    assert snapshot.facts == {"unread": "Node"}
    assert len(snapshot.pods) == 1


def test_secrets_are_refused() -> None:
    assert "Secret" not in KINDS
    with pytest.raises(ValueError, match="Secret"):
        take(cluster(FakeApi()), kinds=("Pod", "Secret"))


def test_tokens_and_bulky_fields_are_left_out() -> None:
    api = FakeApi()
    token = {"vcluster.loft.sh/token-abc": "eyJ"}
    api.on("GET", PODS, listing(pod("a", metadata={"annotations": token, "managedFields": [{"manager": "x"}]})))
    maps = [
        {"kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "ns"}, "data": {"password": "p"}},
        {"kind": "ConfigMap", "metadata": {"name": "x-shared-gpu-0", "namespace": "ns"}, "data": {"GPU": "GPU-1"}},
    ]
    api.on("GET", "/api/v1/configmaps", listing(*maps))
    crd = {"metadata": {"name": "c"}, "spec": {"group": "g", "versions": [{"name": "v1", "schema": {"big": 1}}]}}
    api.on("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", listing(crd))
    snapshot = take(cluster(api), kinds=("Pod", "ConfigMap", "CustomResourceDefinition"))
    text = str(to_json(snapshot))
    assert "eyJ" not in text
    assert "managedFields" not in text
    assert snapshot.get("ConfigMap", "settings", "ns")["data"] == {"password": ""}  # type: ignore[index]
    assert snapshot.get("ConfigMap", "x-shared-gpu-0", "ns")["data"] == {"GPU": "GPU-1"}  # type: ignore[index]
    assert snapshot.of("CustomResourceDefinition")[0]["spec"]["versions"] == [{"name": "v1"}]


KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSk\n-----END PRIVATE KEY-----\n"
KEY_LINE = "-----BEGIN PRIVATE KEY-----<redacted>-----END PRIVATE KEY-----"


def test_logs_of_components_and_crashing_pods_are_read() -> None:
    api = FakeApi()
    scheduler = pod("s-1", "Running", metadata={"namespace": "kai-scheduler", "labels": {"app": "kai"}})
    scheduler["status"]["containerStatuses"] = [{"name": "main", "state": {"running": {}}}]
    crashing = pod("c", "Running")
    crashing["status"]["containerStatuses"] = [
        {"name": "main", "state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": 1}}}
    ]
    waiting = pod("m-1", "Pending", metadata={"namespace": "kai-resource-reservation"})
    waiting["status"]["containerStatuses"] = [{"name": "main", "state": {"waiting": {}}}]
    api.on("GET", PODS, listing(scheduler, crashing, waiting, pod("quiet", "Running")))
    api.on("GET", "/api/v1/namespaces/kai-scheduler/pods/s-1/log", "one\ntwo\n")
    api.on(
        "GET", "/api/v1/namespaces/ns/pods/c/log", "panic: eyJhbGciOiJSUzI.eyJzdWIiOiJ4eXo.sig-nature\n" + KEY + "end\n"
    )
    api.on("GET", "/api/v1/namespaces/kai-resource-reservation/pods/m-1/log", status(400, "is waiting to start"))
    snapshot = take(cluster(api), kinds=("Pod",), logs=True)
    assert snapshot.logs == {"kai": ("one", "two"), "ns/c": ("panic: <redacted>", KEY_LINE, "end")}
    (query,) = [request.query for request in api.requests if request.path.endswith("/c/log")]
    assert query["previous"] == "true"


def test_lookups_of_objects_and_events() -> None:
    obj = pod("a", uid="u")
    times = {"late": "2026-01-01T10:00:00Z", "early": "2026-01-01T09:00:00Z"}
    events = tuple(event(reason, "", obj, time, metadata={"name": reason}) for reason, time in times.items())
    snapshot = ClusterSnapshot(datetime(2026, 1, 1, tzinfo=UTC), {"Pod": (obj,), "Event": events})
    assert [e.reason for e in snapshot.events_about("u")] == ["early", "late"]
    assert snapshot.events_about("") == ()
    assert snapshot.get("Pod", "a", "ns") is not None
    assert snapshot.get("Pod", "a") is None
    assert [view.name for view in snapshot.pods] == ["a"]


def test_reservations_are_found_by_namespace_and_label() -> None:
    ns = "kai-resource-reservation"
    reserving = pod("gpu-reservation-1", metadata={"namespace": ns, "labels": {"app": ns, "runai-gpu-group": "g"}})
    other = pod("debug", metadata={"namespace": ns})
    snapshot = ClusterSnapshot(datetime(2026, 1, 1, tzinfo=UTC), {"Pod": (reserving, other)})
    assert [(view.name, view.gpu_groups) for view in snapshot.reservations] == [("gpu-reservation-1", ("g",))]


def test_bind_request_view() -> None:
    raw = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"podName": "p", "selectedNode": "n", "selectedGPUGroups": ["g"], "receivedResourceType": "Fraction"},
        "status": {"phase": "Failed", "reason": "no", "failedAttempts": 2},
    }
    (view,) = ClusterSnapshot(datetime(2026, 1, 1, tzinfo=UTC), {"BindRequest": (raw,)}).bind_requests
    assert (view.pod, view.node, view.gpu_groups, view.resource_type) == ("p", "n", ("g",), "Fraction")
    assert (view.phase, view.reason, view.failed_attempts) == ("Failed", "no", 2)


def test_bind_request_of_0_18_names_its_groups_in_another_field() -> None:
    groups = [{"id": "g", "computeSharingMode": "time-slicing"}, {"id": "h"}]
    raw = {"metadata": {"name": "p"}, "spec": {"selectedFractionalGpuGroups": groups, "selectedGPUGroups": ["old"]}}
    (view,) = ClusterSnapshot(datetime(2026, 1, 1, tzinfo=UTC), {"BindRequest": (raw,)}).bind_requests
    assert view.gpu_groups == ("g", "h")


def test_snapshot_survives_saving_and_loading(tmp_path: Path) -> None:
    snapshot = ClusterSnapshot(
        datetime(2026, 1, 1, 12, tzinfo=UTC), {"Pod": (pod("a"),)}, frozenset({"Queue"}), {"kai": ("x",)}, {"f": "v"}
    )
    snapshot.save(tmp_path / "one.json.gz")
    snapshot.save(tmp_path / "two.json.gz")
    loaded = ClusterSnapshot.load(tmp_path / "one.json.gz")
    assert to_json(loaded) == to_json(snapshot)
    assert (tmp_path / "one.json.gz").read_bytes() == (tmp_path / "two.json.gz").read_bytes()
