"""Artifacts of a failed test: what is kept, what is kept out, and how long it may take."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from lab.errors import ApiFailed
from lab.report.artifacts import collect, collect_lab, dump, summary
from lab.workloads.namespace import WorkloadNamespace
from tests.support.kube_fake import pod

Json = dict[str, Any]
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl-_x"


class FakeCluster:
    """Answers lists and logs from what a test put there."""

    def __init__(self) -> None:
        self.objects: dict[str, list[Json]] = {}
        self.text = "all is well\n"
        self.trouble: dict[str, Exception] = {}
        self.hang: dict[str, threading.Event] = {}

    def list(self, kind: str, namespace: str | None = None, labels: str | None = None) -> list[Json]:
        if kind in self.hang:
            self.hang[kind].wait(10)
        if kind in self.trouble:
            raise self.trouble[kind]
        found = self.objects.get(kind, [])
        return [obj for obj in found if namespace in (None, obj["metadata"].get("namespace"))]

    def logs(self, name: str, namespace: str, container: str, tail: int) -> str:
        return self.text

    def kubectl(self, *args: str) -> str:
        return " ".join(["kubectl", *args])


@pytest.fixture
def host() -> Iterator[FakeCluster]:
    fake = FakeCluster()
    yield fake
    for event in fake.hang.values():
        event.set()


def place(host: FakeCluster, tenant: str = "", cluster: FakeCluster | None = None) -> WorkloadNamespace:
    return WorkloadNamespace("demo", host, cluster or host, "ns", tenant)  # type: ignore[arg-type]


def inside(namespace: str, name: str, **meta: Any) -> Json:
    obj = pod(name, "Running")
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace, **meta}}


def test_objects_events_and_logs_of_test_and_kai(host: FakeCluster, tmp_path: Path) -> None:
    host.objects = {
        "Pod": [inside("ns", "mine"), inside("kai-scheduler", "binder"), inside("elsewhere", "other")],
        "PodGroup": [{"metadata": {"name": "pg-mine", "namespace": "ns"}}],
        "Queue": [{"metadata": {"name": "test"}}],
        "Node": [{"metadata": {"name": "worker", "managedFields": [{"manager": "kubelet"}]}}],
        "Event": [
            {
                "metadata": {"namespace": "ns"},
                "type": "Warning",
                "reason": "Unschedulable",
                "message": "no nodes\nwith GPUs",
                "involvedObject": {"kind": "Pod", "name": "mine"},
                "source": {"component": "kai-scheduler"},
                "lastTimestamp": "2026-01-01T10:00:05Z",
                "count": 3,
            }
        ],
    }
    done = collect(tmp_path / "t", host, [place(host)], title="test_it", facts={"kai": "0.16.8"})  # type: ignore[arg-type]
    assert done.missed == {}
    assert set(done.files) == {
        "kailab-index.txt",
        "host/ns/summary.txt",
        "host/ns/pods.yaml",
        "host/ns/podgroups.yaml",
        "host/nodes.yaml",
        "host/queues.yaml",
        "host/kai-scheduler/summary.txt",
        "host/kai-scheduler/pods.yaml",
        "host/kai-scheduler/binder.main.log",
    }
    told = (tmp_path / "t/host/ns/summary.txt").read_text()
    assert "Pod ns/mine: Running; ready" in told
    assert "10:00:05 Warning kai-scheduler Pod/mine Unschedulable ×3: no nodes with GPUs" in told
    assert "other" not in told
    assert yaml.safe_load((tmp_path / "t/host/nodes.yaml").read_text()) == {"metadata": {"name": "worker"}}
    index = (tmp_path / "t/kailab-index.txt").read_text()
    assert index.startswith("test_it\n")
    assert "kai: 0.16.8" in index
    assert "look closer: kubectl get pods -n ns" in index


def test_tenant_is_kept_from_both_sides(host: FakeCluster, tmp_path: Path) -> None:
    tenant = FakeCluster()
    tenant.objects = {"Pod": [inside("ns", "mine")]}
    host.objects = {
        "Pod": [inside("team", "mine-x-ns-x-ml"), inside("team", "ml-0")],
        "PodGroup": [{"metadata": {"name": "pg-mine", "namespace": "team"}}],
    }
    done = collect(tmp_path / "t", host, [place(host, "ml", tenant)], title="test_it")  # type: ignore[arg-type]
    assert {"ml/ns/pods.yaml", "ml/on-host/pods.yaml", "ml/on-host/podgroups.yaml"} <= set(done.files)
    assert {"ml/syncer/ml-0.main.log", "ml/on-host/summary.txt"} <= set(done.files)
    assert "mine-x-ns-x-ml" in (tmp_path / "t/ml/on-host/summary.txt").read_text()


def test_no_token_gets_into_a_file(host: FakeCluster, tmp_path: Path) -> None:
    annotations = {"vcluster.loft.sh/token-abcdefgh": TOKEN, "note": f"Bearer {TOKEN}"}
    host.objects = {"Pod": [inside("ns", "mine", annotations=annotations), inside("kai-scheduler", "binder")]}
    host.text = f"authorization: Bearer {TOKEN}\n"
    collect(tmp_path / "t", host, [place(host)], title="test_it")  # type: ignore[arg-type]
    top = tmp_path / "t"
    texts = {str(path.relative_to(top)): path.read_text() for path in top.rglob("*") if path.is_file()}
    assert not [name for name, text in texts.items() if TOKEN.split(".")[2] in text]
    assert texts["host/kai-scheduler/binder.main.log"] == "authorization: Bearer <redacted>\n"
    assert "vcluster.loft.sh/token-abcdefgh: <redacted>" in texts["host/ns/pods.yaml"]


def test_what_cannot_be_read_is_named_and_the_rest_is_there(host: FakeCluster, tmp_path: Path) -> None:
    host.objects = {"Node": [{"metadata": {"name": "worker"}}]}
    host.trouble = {"Queue": ApiFailed("GET Queue objects: forbidden (HTTP 403)"), "PodGroup": KeyError("spec")}
    done = collect(tmp_path / "t", host, [place(host)], title="test_it")  # type: ignore[arg-type]
    assert done.missed == {
        "host/queues.yaml": "GET Queue objects: forbidden (HTTP 403)",
        "host/ns/podgroups.yaml": "KeyError: 'spec'",
    }
    assert "host/nodes.yaml" in done.files
    assert "host/queues.yaml: not collected: GET Queue" in (tmp_path / "t/kailab-index.txt").read_text()


def test_time_is_bounded_and_nothing_is_written_afterwards(host: FakeCluster, tmp_path: Path) -> None:
    host.objects = {"Node": [{"metadata": {"name": "worker"}}], "Queue": [{"metadata": {"name": "late"}}]}
    host.hang["Queue"] = threading.Event()
    began = time.monotonic()
    done = collect(tmp_path / "t", host, [], title="test_it", seconds=0.5)  # type: ignore[arg-type]
    assert time.monotonic() - began < 5
    assert done.missed == {"host/queues.yaml": "not within 0.5 s"}
    assert "host/nodes.yaml" in done.files
    host.hang["Queue"].set()
    for thread in [t for t in threading.enumerate() if t.name.startswith("artifacts-")]:
        thread.join(5)
    assert not (tmp_path / "t/host/queues.yaml").exists()


def test_an_earlier_run_is_replaced_but_a_strangers_folder_is_not(host: FakeCluster, tmp_path: Path) -> None:
    host.objects = {"Queue": [{"metadata": {"name": "first"}}]}
    collect(tmp_path / "t", host, [], title="first")  # type: ignore[arg-type]
    host.objects = {}
    assert collect(tmp_path / "t", host, [], title="second").files == ("kailab-index.txt",)  # type: ignore[arg-type]
    assert not (tmp_path / "t/host/queues.yaml").exists()
    (tmp_path / "own").mkdir()
    (tmp_path / "own/precious.txt").write_text("mine")
    collect(tmp_path / "own", host, [], title="third")  # type: ignore[arg-type]
    assert (tmp_path / "own/precious.txt").read_text() == "mine"


def test_whole_lab_with_its_tenants(host: FakeCluster, tmp_path: Path) -> None:
    tenant = FakeCluster()
    tenant.objects = {"Pod": [inside("default", "virtual")]}
    host.objects = {"Pod": [inside("kube-system", "plugin"), inside("team", "ml-0")]}
    lab = SimpleNamespace(
        spec=SimpleNamespace(name="demo"),
        cluster=host,
        tenants=(SimpleNamespace(name="ml"),),
        tenant=lambda name: tenant,
        facts=lambda: {"gpu_mode": "simulated"},
    )
    files = {str(path.relative_to(tmp_path / "t")) for path in collect_lab(lab, tmp_path / "t")}  # type: ignore[arg-type]
    assert {"host/summary.txt", "host/pods.yaml", "host/kube-system/plugin.main.log"} <= files
    assert {"ml/summary.txt", "ml/pods.yaml", "ml/on-host/summary.txt", "ml/syncer/ml-0.main.log"} <= files
    assert "gpu_mode: simulated" in (tmp_path / "t/kailab-index.txt").read_text()


def test_nothing_to_tell_is_no_text() -> None:
    assert dump([]) == ""
    assert summary([], []) == ""


def test_summary_tells_what_matters_to_kai() -> None:
    meta = {
        "annotations": {"gpu-fraction": "0.5", "pod-group-name": "pg-a"},
        "labels": {"kai.scheduler/queue": "test", "runai-gpu-group": "g1"},
    }
    text = summary([pod("a", metadata=meta)], [])
    for line in ("queue: test", "pod group: pg-a", "gpu groups: g1", "fraction: 0.5", "scheduler: kai-scheduler"):
        assert f"    {line}\n" in text
    assert "received" not in text
