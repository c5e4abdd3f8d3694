"""Running a comparison: order of the runs, early refusals, and one run over scripted APIs."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from lab.compare.annotation_diff import SchedulerMarks
from lab.compare.compare import by_pod, compare, pending
from lab.compare.measure import Round, measure
from lab.compare.target import Target
from lab.compare.workload import fit
from lab.errors import ApiFailed, ManifestsRefused, SpecError
from lab.gpu.map.model import GpuMap
from lab.kube import Cluster, informers, reflector
from lab.lint import parse
from lab.paths import LabPaths
from lab.workloads.controllers import job
from lab.workloads.pods import cpu_pod, fraction_pod
from tests.support.compare_world import SPACE, life, recording, seen, target
from tests.support.kube_fake import FakeApi, Json, Stream, listing, pod

run_module = importlib.import_module("lab.compare.compare")
EMPTY = GpuMap("2026-11-21T12:00:00+00:00")


def documents(*docs: Json) -> Any:
    return parse(yaml.safe_dump_all(docs or [cpu_pod("a")]), "w.yaml")


def lab(**more: Any) -> Any:
    return SimpleNamespace(spec=SimpleNamespace(name="demo"), paths=LabPaths("demo"), **more)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """The runs in order; none touches a cluster."""
    made: list[tuple[str, int, int]] = []

    def go(self: Any) -> Any:
        made.append((self.target.side.letter, self.number, self.turn))
        run = Round(self.target.side.letter, self.number, self.turn, "ml", SPACE)
        text = f"x: {self.target.side.letter}"
        return measure(run, recording(*life("a")), [], EMPTY, {}, {}), SchedulerMarks({("a", "label", "x"): text}, {})

    monkeypatch.setattr(run_module._OneRun, "go", go)
    return made


def tenants(monkeypatch: pytest.MonkeyPatch, **found: Target) -> None:
    def of(_: Any, letter: Any, name: str) -> Target:
        one = found[name]
        return replace(one, side=replace(one.side, letter=letter, tenant=name))

    monkeypatch.setattr(run_module, "target_of", of)


def test_sides_alternate_from_round_to_round(ran: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tenants(monkeypatch, one=target("0.9.3"), two=target())
    messages: list[str] = []
    found = compare(lab(), "one", "two", documents(), rounds=3, say=messages.append)
    assert ran == [("a", 1, 1), ("b", 1, 2), ("b", 2, 1), ("a", 2, 2), ("a", 3, 1), ("b", 3, 2)]
    assert found.order == "1A, 1B, 2B, 2A, 3A, 3B"
    assert messages[2] == "round 2: two (KAI 0.16.8 in the tenant)"
    assert [(one.a, one.b) for one in found.differences] == [("x: a", "x: b")]
    assert (found.a.tenant, found.b.tenant, found.rounds) == ("one", "two", 3)


def test_tenant_may_be_compared_with_itself(ran: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tenants(monkeypatch, one=target())
    compare(lab(), "one", "one", documents())
    assert ran == [("a", 1, 1), ("b", 1, 2)]


def with_nodes(found: Target, *nodes: str) -> Target:
    return replace(found, side=replace(found.side, nodes=nodes))


@pytest.mark.parametrize("nodes", [((), ("w2",)), (("w1",), ()), (("w1",), ("w1", "w2"))])
def test_concurrent_runs_need_dedicated_nodes(ran: Any, monkeypatch: pytest.MonkeyPatch, nodes: Any) -> None:
    tenants(monkeypatch, one=with_nodes(target(), *nodes[0]), two=with_nodes(target(), *nodes[1]))
    with pytest.raises(SpecError, match="dedicated nodes"):
        compare(lab(), "one", "two", documents(), at_once=True)
    assert ran == []


def test_concurrent_runs_both_have_turn_1(ran: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tenants(monkeypatch, one=with_nodes(target(), "w1"), two=with_nodes(target(), "w2"))
    found = compare(lab(), "one", "two", documents(), at_once=True)
    assert sorted(ran) == [("a", 1, 1), ("b", 1, 1)]
    assert found.order == "both at once"


def test_unsupported_workload_is_refused_before_any_run(ran: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tenants(monkeypatch, one=target(), two=target("", mode="default"))
    with pytest.raises(ManifestsRefused, match="tenant two"):
        compare(lab(), "one", "two", documents(fraction_pod("a", fraction=0.5)))
    assert ran == []


def test_zero_rounds_are_refused() -> None:
    with pytest.raises(SpecError, match="--rounds must be at least 1"):
        compare(lab(), "one", "two", documents(), rounds=0)


def test_pending_pods_are_those_without_a_node_at_the_end() -> None:
    found = recording(
        *life("runs"), *life("waits", scheduled=None, running=None), seen("gone", 1.0), seen("gone", 2.0, gone=True)
    )
    assert pending(found) == ["waits"]


def test_explanation_is_split_by_pod() -> None:
    lines = ["Pod ns/a: Pending", "why [x]: y", "Pod ns/a-2: Pending", "why [z]: w"]
    assert by_pod("ns", ["a", "a-2"], lines) == {"a": tuple(lines[:2]), "a-2": tuple(lines[2:])}
    assert by_pod("ns", ["a", "b"], ["no explanation: slow"]) == dict.fromkeys("ab", ("no explanation: slow",))


# One run, over scripted APIs.


def fake() -> Iterator[FakeApi]:
    api = FakeApi()
    yield api
    assert api.unexpected == []


tenant_api = pytest.fixture(fake, name="tenant_api")
host_api = pytest.fixture(fake, name="host_api")

SOME_PODS = "/api/v1/namespaces/{space}/pods"


@pytest.fixture
def scripted(tenant_api: FakeApi, host_api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A lab with the tenant ``ml`` and a fixed namespace, whose pods settle at once."""
    monkeypatch.setattr(reflector, "PAUSE", 0.01)
    monkeypatch.setattr(informers, "TAKE_SECONDS", 0.05)
    monkeypatch.setattr("lab.compare.recording.CALM", 0.02)
    monkeypatch.setattr("lab.compare.recording.PATIENT", 0.02)
    monkeypatch.setattr("lab.workloads.namespace.secrets.token_hex", lambda _: "abc123")
    monkeypatch.setattr(run_module.GpuSource, "of", lambda _: SimpleNamespace(read=lambda: EMPTY))
    monkeypatch.setattr(
        run_module,
        "wait_evidence",
        lambda host, cluster, space, tenant, names: [f"Pod {space}/{n}: why" for n in names],
    )
    for api in (tenant_api, host_api):
        api.on("GET", "/api/v1/events", listing(), always=True)
        api.on("GET", "/api/v1/events", Stream(), always=True)
        api.on("GET", "/apis/scheduling.run.ai/v2alpha2/podgroups", (404, "none"), always=True)
    host_api.on("GET", "/api/v1/pods", listing(), always=True)
    host_api.on("GET", "/api/v1/pods", Stream(), always=True)
    host_api.on("GET", "/api/v1/nodes", listing(), always=True)
    tenant_api.on("POST", "/api/v1/namespaces", {"kind": "Namespace"})
    clusters = [Cluster(Path("/lab/x"), transport=api) for api in (host_api, tenant_api)]
    return lab(cluster=clusters[0], tenant=lambda _: clusters[1], context=lambda _: None)


def mine(name: str, phase: str = "Running", **more: Any) -> Json:
    made = pod(name, phase, **more)
    return {**made, "metadata": {**made["metadata"], "namespace": "t-compare-ml-abc123"}}


def gone(api: FakeApi) -> Any:
    """Script the deletion of all pods and of the namespace."""
    pods = SOME_PODS.format(space="t-compare-ml-abc123")
    deleted = api.on("DELETE", pods, {"kind": "PodList"})
    api.on("GET", pods, listing(), always=True)
    api.on("GET", pods, Stream(), always=True)
    space = api.on("DELETE", "/api/v1/namespaces/t-compare-ml-abc123", {"kind": "Status"})
    return deleted, space


def one_run(scripted: Any, *docs: Json, timeout: float = 30.0) -> Any:
    to = target()
    return run_module._OneRun(scripted, to, fit(documents(*docs), to), 1, 1, timeout).go()


def test_run_creates_measures_and_deletes(scripted: Any, tenant_api: FakeApi) -> None:
    tenant_api.on("GET", "/api/v1/pods", listing())
    refused = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    bound = mine("a", spec={"nodeName": "worker"})
    tenant_api.on("GET", "/api/v1/pods", Stream(("ADDED", bound), ("ADDED", mine("b", "Pending", status=refused))))
    made = tenant_api.on("POST", SOME_PODS.format(space="t-compare-ml-abc123"), {"kind": "Pod"}, {"kind": "Pod"})
    deleted, space = gone(tenant_api)
    found, _ = one_run(scripted, cpu_pod("a"), cpu_pod("b"))
    assert [request.body["metadata"]["labels"]["kailab"] for request in made.requests] == ["demo", "demo"]
    assert found.settled
    assert {one.lane: one.state for one in found.pods} == {"a": "running", "b": "pending"}
    assert found.pending[0].why == ("Pod t-compare-ml-abc123/b: why",)
    assert len(deleted.requests) == len(space.requests) == 1


def test_timed_out_run_skips_later_waves(scripted: Any, tenant_api: FakeApi) -> None:
    tenant_api.on("GET", "/api/v1/pods", listing())
    tenant_api.on("GET", "/api/v1/pods", Stream(("ADDED", mine("a", "Pending"))))
    tenant_api.on("POST", SOME_PODS.format(space="t-compare-ml-abc123"), {"kind": "Pod"})
    gone(tenant_api)
    later = cpu_pod("b")
    later["metadata"]["annotations"] = {"kailab.dev/wave": "1"}
    found, _ = one_run(scripted, cpu_pod("a"), later, timeout=0.3)
    assert not found.settled
    assert "not settled within 0.3 s; 1 later waves were not created" in found.notes


def test_objects_of_a_refused_run_are_deleted_owners_first(scripted: Any, tenant_api: FakeApi) -> None:
    tenant_api.on("GET", "/api/v1/pods", listing())
    tenant_api.on("GET", "/api/v1/pods", Stream(), always=True)
    jobs = "/apis/batch/v1/namespaces/t-compare-ml-abc123/jobs"
    tenant_api.on("POST", jobs, {"kind": "Job"})
    tenant_api.on("POST", SOME_PODS.format(space="t-compare-ml-abc123"), (403, {"message": "quota", "code": 403}))
    tenant_api.on("DELETE", f"{jobs}/j", {"kind": "Status"})
    deleted, space = gone(tenant_api)
    with pytest.raises(ApiFailed, match="quota"):
        one_run(scripted, job("j", cpu_pod(), pods=1), cpu_pod("a"))
    order = [request.path for request in tenant_api.requests if request.method == "DELETE"]
    assert order[0] == f"{jobs}/j"
    assert len(deleted.requests) == len(space.requests) == 1


def reservation(group: str) -> Json:
    made = pod("gpu-reservation-1", "Running")
    labels = {"app": "kai-resource-reservation", "runai-gpu-group": group}
    return {**made, "metadata": {**made["metadata"], "namespace": "kai-resource-reservation", "labels": labels}}


def freed(api: FakeApi, group: str) -> list[str]:
    host = Cluster(Path("/lab/x"), transport=api)
    run = run_module._OneRun(lab(cluster=host), target(), fit(documents(), target()), 1, 1, 1.0)
    notes: list[str] = run._freed(frozenset({group}))
    return notes


def test_run_waits_for_its_reservation_pods(host_api: FakeApi) -> None:
    host_api.on("GET", "/api/v1/pods", listing(reservation("mine"), reservation("mine")))
    route = host_api.on("GET", "/api/v1/pods", Stream(("DELETED", reservation("mine"))))
    assert freed(host_api, "mine") == []
    assert len(route.requests) == 1, "it was still there at first"


def test_reservation_pods_of_others_are_ignored(host_api: FakeApi) -> None:
    host_api.on("GET", "/api/v1/pods", listing(reservation("other")))
    host_api.on("GET", "/api/v1/pods", Stream(), always=True)
    assert freed(host_api, "mine") == []


def test_remaining_reservation_pods_are_noted(host_api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "_FREE_SECONDS", 0.05)
    host_api.on("GET", "/api/v1/pods", listing(reservation("mine")))
    host_api.on("GET", "/api/v1/pods", Stream(), always=True)
    host_api.on("GET", "/api/v1/events", listing(), always=True)
    host_api.on("GET", "/api/v1/namespaces/kai-resource-reservation/events", listing(), always=True)
    (note,) = freed(host_api, "mine")
    assert note.startswith("after the run: the reservation pods of the run are gone: not within")
