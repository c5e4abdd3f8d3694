"""Reading the probe's facts from pods, against a strict fake of the API."""

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
def workloads(cluster: Cluster) -> WorkloadNamespace:
    return WorkloadNamespace("demo", cluster, cluster, "ns")


def output(used: int | None = 5, **more: Any) -> str:
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


def test_facts_are_parsed() -> None:
    facts = ProbeFacts.of(json.loads(output()))
    assert facts.env == {"GPU_PORTION": "0.50"}
    assert facts.devices == (ProbedDevice(0, "GPU-1", "T4", 100, 5, ""),)
    assert (facts.uuids, facts.driver, facts.error) == (("GPU-1",), "580", "")
    nothing = ProbeFacts.of(json.loads(output(nvml={"driver": None, "error": "no library"}, devices=[])))
    assert (nothing.driver, nothing.error, nothing.devices) == ("", "no library", ())


def test_facts_are_read_with_exec(workloads: WorkloadNamespace, api: FakeApi) -> None:
    api.on("GET", "/api/v1/namespaces/ns/pods/a", pod("a", "Running"))
    api.exec_answer = ExecOutcome(out=output(), err="", status=SUCCESS)
    assert facts_in(workloads, POD).hostname == "a"
    ((path, query),) = api.execs
    assert path == "/api/v1/namespaces/ns/pods/a/exec"
    assert [value for key, value in query if key == "command"] == ["probe", "facts"]


@pytest.mark.parametrize("out", ["sh: probe: not found", "{}", "[]", output(devices=[{}])])
def test_output_without_facts_is_an_error(workloads: WorkloadNamespace, api: FakeApi, out: str) -> None:
    api.on("GET", "/api/v1/namespaces/ns/pods/a", pod("a", "Running"))
    api.exec_answer = ExecOutcome(out=out, err="", status=SUCCESS)
    with pytest.raises(ApiFailed, match="pod ns/a: unexpected output of") as failed:
        facts_in(workloads, POD)
    assert failed.value.evidence == (out,)


def test_facts_are_polled_until_the_condition_is_true(workloads: WorkloadNamespace, api: FakeApi) -> None:
    api.on("GET", "/api/v1/namespaces/ns/pods/a", pod("a", "Running"), always=True)
    answers = iter([output(0), output(0), output(50)])
    api.exec_answer = lambda cancelled: ExecOutcome(out=next(answers), err="", status=SUCCESS)
    facts = facts_when(workloads, POD, lambda facts: facts.devices[0].used == 50, timeout=60, what="half is in use")
    assert facts.devices[0].used == 50
    assert len(api.execs) == 3


def test_timeout_reports_the_last_facts(workloads: WorkloadNamespace, api: FakeApi) -> None:
    api.on("GET", "/api/v1/namespaces/ns/pods/a", pod("a", "Running"), always=True)
    api.exec_answer = ExecOutcome(out=output(7), err="", status=SUCCESS)
    with pytest.raises(WaitTimeout, match="half is in use: not within 0 s") as timeout:
        facts_when(workloads, POD, lambda facts: False, timeout=0, what="half is in use")
    assert "used=7" in timeout.value.evidence[0]
    assert "probe facts" in timeout.value.fix


def test_serving_pod_is_ready_when_its_server_answers(workloads: WorkloadNamespace) -> None:
    plain = cpu_pod("a")
    (container,) = serving(plain)["spec"]["containers"]
    assert "command" not in container  # the image's own program runs
    assert container["args"] == ["serve"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": "http"}
    assert "command" in plain["spec"]["containers"][0]
    assert (server_in(workloads, POD).kind, server_in(workloads, POD).port) == ("Pod", 8000)
