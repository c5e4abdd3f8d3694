"""What suites make of the probe's words, against a strict fake of the API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.errors import ApiFailed, WaitTimeout
from lab.kube import Cluster
from lab.kube.transport import ExecOutcome
from lab.objects.views import PodView
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod
from lab.workloads.probe import ProbedDevice, ProbeFacts, facts_in, facts_when, server_in, serving
from tests.support.kube_fake import FakeApi, pod

POD = PodView.of(pod("a", "Running"))
SUCCESS = {"status": "Success"}


@pytest.fixture
def place(cluster: Cluster) -> WorkloadNamespace:
    return WorkloadNamespace("demo", cluster, cluster, "ns")


def told(used: int | None = 5, **more: Any) -> str:
    device = {
        "index": 0,
        "uuid": "GPU-1",
        "name": "T4",
        "memory_total_mib": 100,
        "memory_used_mib": used,
        "error": None,
    }
    return json.dumps(
        {
            "hostname": "a",
            "pid": 1,
            "env": {"GPU_PORTION": "0.50", "CUDA_VISIBLE_DEVICES": None},
            "device_files": ["/dev/nvidia0"],
            "nvml": {"driver": "580", "error": None},
            "devices": [device],
            **more,
        }
    )


def test_facts() -> None:
    facts = ProbeFacts.of(json.loads(told()))
    assert facts.env == {"GPU_PORTION": "0.50"}
    assert facts.devices == (ProbedDevice(0, "GPU-1", "T4", 100, 5, ""),)
    assert (facts.uuids, facts.driver, facts.error) == (("GPU-1",), "580", "")
    nothing = ProbeFacts.of(json.loads(told(nvml={"driver": None, "error": "no library"}, devices=[])))
    assert (nothing.driver, nothing.error, nothing.devices) == ("", "no library", ())


def test_running_pod_is_asked_by_its_own_program(place: WorkloadNamespace, api: FakeApi) -> None:
    api.on("GET", "/api/v1/namespaces/ns/pods/a", pod("a", "Running"))
    api.exec_answer = ExecOutcome(out=told(), err="", status=SUCCESS)
    assert facts_in(place, POD).hostname == "a"
    ((path, query),) = api.execs
    assert path == "/api/v1/namespaces/ns/pods/a/exec"
    assert [value for key, value in query if key == "command"] == ["probe", "facts"]


@pytest.mark.parametrize("out", ["sh: probe: not found", "{}", "[]", told(devices=[{}])])
def test_what_is_no_facts_is_an_error(place: WorkloadNamespace, api: FakeApi, out: str) -> None:
    api.on("GET", "/api/v1/namespaces/ns/pods/a", pod("a", "Running"))
    api.exec_answer = ExecOutcome(out=out, err="", status=SUCCESS)
    with pytest.raises(ApiFailed, match="pod ns/a: unexpected output of") as failed:
        facts_in(place, POD)
    assert failed.value.evidence == (out,)


def test_asked_until_it_is_so(place: WorkloadNamespace, api: FakeApi) -> None:
    api.on("GET", "/api/v1/namespaces/ns/pods/a", pod("a", "Running"), always=True)
    answers = iter([told(0), told(0), told(50)])
    api.exec_answer = lambda cancelled: ExecOutcome(out=next(answers), err="", status=SUCCESS)
    facts = facts_when(place, POD, lambda facts: facts.devices[0].used == 50, timeout=60, what="half is in use")
    assert facts.devices[0].used == 50
    assert len(api.execs) == 3


def test_what_never_becomes_so_is_told(place: WorkloadNamespace, api: FakeApi) -> None:
    api.on("GET", "/api/v1/namespaces/ns/pods/a", pod("a", "Running"), always=True)
    api.exec_answer = ExecOutcome(out=told(7), err="", status=SUCCESS)
    with pytest.raises(WaitTimeout, match="half is in use: not within 0 s") as late:
        facts_when(place, POD, lambda facts: False, timeout=0, what="half is in use")
    assert "used=7" in late.value.evidence[0]
    assert "probe facts" in late.value.fix


def test_serving_pod_is_ready_when_it_serves(place: WorkloadNamespace) -> None:
    plain = cpu_pod("a")
    (container,) = serving(plain)["spec"]["containers"]
    assert "command" not in container  # the image's own program runs
    assert container["args"] == ["serve"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": "http"}
    assert "command" in plain["spec"]["containers"][0]
    assert (server_in(place, POD).kind, server_in(place, POD).port) == ("Pod", 8000)
