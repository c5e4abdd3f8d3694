"""Artifacts of a failed test: files, redaction and time limit."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from lab.report.artifacts import LOG_LINES, collect, collect_lab, dump, summary
from lab.workloads.namespace import WorkloadNamespace
from tests.support.fake_api_server import FakeApiServer
from tests.support.kube_fake import pod

Json = dict[str, Any]
SYNCED = {"vcluster.loft.sh/managed-by": "ml"}
CONTROL = {"app": "vcluster", "release": "ml"}
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl-_x"


@pytest.fixture
def host() -> FakeApiServer:
    return FakeApiServer()


def workloads(host: FakeApiServer, tenant: str = "", api: FakeApiServer | None = None) -> WorkloadNamespace:
    return WorkloadNamespace("demo", host.cluster, (api or host).cluster, "ns", tenant)


def inside(namespace: str, name: str, **meta: Any) -> Json:
    obj = pod(name, "Running")
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace, **meta}}


def test_objects_events_and_logs_of_test_and_kai_are_collected(host: FakeApiServer, tmp_path: Path) -> None:
    host.add(inside("ns", "mine"), inside("kai-scheduler", "binder"), inside("elsewhere", "other"))
    host.put("PodGroup", "pg-mine", "ns")
    host.put("Queue", "test")
    host.put("Node", "worker", metadata={"managedFields": [{"manager": "kubelet"}]})
    host.put(
        "Event",
        "mine.1",
        "ns",
        type="Warning",
        reason="Unschedulable",
        message="no nodes\nwith GPUs",
        involvedObject={"kind": "Pod", "name": "mine"},
        source={"component": "kai-scheduler"},
        lastTimestamp="2026-01-01T10:00:05Z",
        count=3,
    )
    done = collect(tmp_path / "t", host.cluster, [workloads(host)], title="test_it", facts={"kai": "0.16.8"})
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
    text = (tmp_path / "t/host/ns/summary.txt").read_text()
    assert "Pod ns/mine: Running; ready" in text
    assert "10:00:05 Warning kai-scheduler Pod/mine Unschedulable ×3: no nodes with GPUs" in text
    assert "other" not in text
    node = yaml.safe_load((tmp_path / "t/host/nodes.yaml").read_text())["metadata"]
    assert (node["name"], "managedFields" in node) == ("worker", False)
    index = (tmp_path / "t/kailab-index.txt").read_text()
    assert index.startswith("test_it\n")
    assert "kai: 0.16.8" in index
    assert f"look closer: {host.cluster.kubectl('get', 'pods', '-n', 'ns')}" in index


def test_tenant_is_collected_from_both_sides(host: FakeApiServer, tmp_path: Path) -> None:
    tenant = FakeApiServer()
    tenant.add(inside("ns", "mine"))
    host.add(inside("team", "mine-x-ns-x-ml", labels=SYNCED), inside("team", "ml-0", labels=CONTROL))
    host.put("PodGroup", "pg-mine", "team")
    done = collect(tmp_path / "t", host.cluster, [workloads(host, "ml", tenant)], title="test_it")
    assert {"ml/ns/pods.yaml", "ml/on-host/pods.yaml", "ml/on-host/podgroups.yaml"} <= set(done.files)
    assert {"ml/syncer/ml-0.main.log", "ml/on-host/summary.txt"} <= set(done.files)
    assert "mine-x-ns-x-ml" in (tmp_path / "t/ml/on-host/summary.txt").read_text()


@pytest.mark.parametrize("lines", [LOG_LINES + 1, 3])
def test_logs_reach_back_to_the_start_of_the_test(
    host: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    host.add(inside("kai-scheduler", "binder"))
    monkeypatch.setattr("lab.report.artifacts.time.time", lambda: 1061.2)
    logs = {("sinceSeconds", "62"): "since\n" * lines, ("tailLines", str(LOG_LINES)): "tail\n" * LOG_LINES}
    host.react("log", "Pod", lambda call: next(text for query, text in logs.items() if query in call.query.items()))
    collect(tmp_path / "t", host.cluster, [], title="test_it", since=1000.0)
    text = (tmp_path / "t/host/kai-scheduler/binder.main.log").read_text()
    assert text == ("since\n" * lines if lines > LOG_LINES else "tail\n" * LOG_LINES)


def test_tokens_are_redacted(host: FakeApiServer, tmp_path: Path) -> None:
    annotations = {"vcluster.loft.sh/token-abcdefgh": TOKEN, "note": f"Bearer {TOKEN}"}
    host.add(inside("ns", "mine", annotations=annotations), inside("kai-scheduler", "binder"))
    host.react("log", "Pod", lambda _: f"authorization: Bearer {TOKEN}\n")
    collect(tmp_path / "t", host.cluster, [workloads(host)], title="test_it")
    top = tmp_path / "t"
    texts = {str(path.relative_to(top)): path.read_text() for path in top.rglob("*") if path.is_file()}
    assert not [name for name, text in texts.items() if TOKEN.split(".")[2] in text]
    assert texts["host/kai-scheduler/binder.main.log"] == "authorization: Bearer <redacted>\n"
    assert "vcluster.loft.sh/token-abcdefgh: <redacted>" in texts["host/ns/pods.yaml"]


def test_unreadable_kinds_are_listed_and_the_rest_is_collected(host: FakeApiServer, tmp_path: Path) -> None:
    host.put("Node", "worker")
    host.fail("list", "Queue", (403, "forbidden"))
    host.fail("list", "PodGroup", KeyError("spec"))
    done = collect(tmp_path / "t", host.cluster, [workloads(host)], title="test_it")
    assert done.missed == {
        "host/queues.yaml": "GET Queue objects: forbidden (HTTP 403)",
        "host/ns/podgroups.yaml": "KeyError: 'spec'",
    }
    assert "host/nodes.yaml" in done.files
    assert "host/queues.yaml: not collected: GET Queue" in (tmp_path / "t/kailab-index.txt").read_text()


def test_collection_stops_at_its_time_limit(host: FakeApiServer, tmp_path: Path) -> None:
    host.put("Node", "worker")
    host.put("Queue", "late")
    go_on = threading.Event()
    host.after("list", "Queue", lambda _: go_on.wait(10))
    began = time.monotonic()
    done = collect(tmp_path / "t", host.cluster, [], title="test_it", seconds=0.5)
    assert time.monotonic() - began < 5
    assert done.missed == {"host/queues.yaml": "not within 0.5 s"}
    assert "host/nodes.yaml" in done.files
    go_on.set()
    for thread in [t for t in threading.enumerate() if t.name.startswith("artifacts-")]:
        thread.join(5)
    assert not (tmp_path / "t/host/queues.yaml").exists()


def test_earlier_artifacts_are_replaced_but_other_files_are_kept(host: FakeApiServer, tmp_path: Path) -> None:
    host.put("Queue", "first")
    collect(tmp_path / "t", host.cluster, [], title="first")
    host.remove("Queue")
    assert collect(tmp_path / "t", host.cluster, [], title="second").files == ("kailab-index.txt",)
    assert not (tmp_path / "t/host/queues.yaml").exists()
    (tmp_path / "own").mkdir()
    (tmp_path / "own/precious.txt").write_text("mine")
    assert collect(tmp_path / "own", host.cluster, [], title="third").files == ("kailab-index.txt",)
    assert (tmp_path / "own/precious.txt").read_text() == "mine"


def test_lab_artifacts_include_its_tenants(host: FakeApiServer, tmp_path: Path) -> None:
    tenant = FakeApiServer()
    tenant.add(inside("default", "virtual"))
    host.add(inside("kube-system", "plugin"), inside("team", "ml-0", labels=CONTROL))
    lab = SimpleNamespace(
        spec=SimpleNamespace(name="demo"),
        cluster=host.cluster,
        tenants=(SimpleNamespace(name="ml"),),
        tenant=lambda name: tenant.cluster,
        facts=lambda: {"gpu_mode": "simulated"},
    )
    files = {str(path.relative_to(tmp_path / "t")) for path in collect_lab(lab, tmp_path / "t")}  # type: ignore[arg-type]
    assert {"host/summary.txt", "host/pods.yaml", "host/kube-system/plugin.main.log"} <= files
    assert {"ml/summary.txt", "ml/pods.yaml", "ml/on-host/summary.txt", "ml/syncer/ml-0.main.log"} <= files
    assert "gpu_mode: simulated" in (tmp_path / "t/kailab-index.txt").read_text()


def test_empty_dump_and_summary_have_no_text() -> None:
    assert dump([]) == ""
    assert summary([], []) == ""


def test_summary_shows_the_keys_of_kai() -> None:
    meta = {
        "annotations": {"gpu-fraction": "0.5", "pod-group-name": "pg-a"},
        "labels": {"kai.scheduler/queue": "test", "runai-gpu-group": "g1"},
    }
    text = summary([pod("a", metadata=meta)], [])
    for line in ("queue: test", "pod group: pg-a", "gpu groups: g1", "fraction: 0.5", "scheduler: kai-scheduler"):
        assert f"    {line}\n" in text
    assert "received" not in text
