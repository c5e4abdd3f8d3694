from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.kai import line_of
from lab.snapshot.node_info import NodeInfo
from lab.steps.kai.upgrade import smoke_test
from lab.steps.kai.upgrade.smoke_test import SmokeTest, gang, run_smoke_tests, start_load


class Nodes:
    """One node, on which workloads that are started count as Ready and hold the GPUs they ask for."""

    def __init__(self, patch: pytest.MonkeyPatch, *, capacity: int, allocatable: int, used: int) -> None:
        self.capacity, self.allocatable, self.used = capacity, allocatable, used
        self.started: list[str] = []
        self.place: Any = SimpleNamespace(cluster=None, tenant="", namespace="t-1", empty=lambda kind: None)
        dedicated = self.info({smoke_test.NODE_LABEL: "ml"})
        patch.setattr(smoke_test, "read_node_infos", lambda cluster: (self.info({}), dedicated))
        patch.setattr(smoke_test, "_start", self.start)

    def info(self, labels: dict[str, str]) -> NodeInfo:
        view = SimpleNamespace(ready=True, unschedulable=False, name="worker", capacity={}, labels=labels)
        gpus = {"nvidia.com/gpu": float(self.allocatable)}
        return NodeInfo(view, self.capacity, gpus, {"nvidia.com/gpu": float(self.used)}, (), ())  # type: ignore[arg-type]

    def start(self, place: object, name: str, docs: list[Any]) -> SmokeTest:
        self.started.append(name)
        assert not [doc for doc in docs if "." in doc["metadata"]["name"]], "KAI before 0.16.5 refuses such fractions"
        self.used += name in ("gpu", "fractions")
        return SmokeTest(name, 1.0)

    def tests(self, *, sharing: bool = True) -> dict[str, SmokeTest]:
        return {test.name: test for test in run_smoke_tests(self.place, "team", line_of("0.16.8"), sharing=sharing)}

    def load(self, *, sharing: bool = True) -> dict[str, SmokeTest]:
        return {test.name: test for test in start_load(self.place, "team", line_of("0.16.8"), sharing=sharing)}


def test_free_gpus_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Nodes(monkeypatch, capacity=2, allocatable=2, used=1).tests()
    assert {name: test.seconds for name, test in found.items()} == {
        "cpu": 1.0,
        "gang": 1.0,
        "gpu": 1.0,
        "fraction": 1.0,
    }


@pytest.mark.parametrize(
    ("allocatable", "used"), [pytest.param(2, 2, id="busy"), pytest.param(0, 0, id="all have failed")]
)
def test_gpus_that_cannot_be_tried_leave_something_unproven(
    monkeypatch: pytest.MonkeyPatch, allocatable: int, used: int
) -> None:
    nodes = Nodes(monkeypatch, capacity=2, allocatable=allocatable, used=used)
    found = nodes.tests()
    assert nodes.started == ["cpu", "gang"]
    assert found["gpu"] == SmokeTest("gpu", skipped="of 2 GPUs none is free", unproven=True)
    assert found["fraction"] == SmokeTest("fraction", skipped="no GPU has 0.1 free", unproven=True)
    load = nodes.load()
    assert load["fractions"] == SmokeTest("fractions", skipped="of 2 GPUs none is free", unproven=True)
    assert load["gpu"] == SmokeTest("gpu", skipped="of 2 GPUs none is free", unproven=True)


def test_cluster_without_gpus_or_sharing_lacks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(monkeypatch, capacity=0, allocatable=0, used=0)
    found = nodes.tests(sharing=False)
    assert found["gpu"] == SmokeTest("gpu", skipped="no node has GPUs")
    assert found["fraction"] == SmokeTest("fraction", skipped="gpuSharing is off")
    load = nodes.load(sharing=False)
    assert [test.name for test in load.values() if test.unproven] == []
    assert load["gang"].seconds == 1.0


def test_load_with_one_gpu_shares_it(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(monkeypatch, capacity=1, allocatable=1, used=0)
    found = nodes.load()
    assert nodes.started == ["gang", "fractions"]
    assert found["gpu"] == SmokeTest("gpu", skipped="no second GPU is free", unproven=True)


def test_gang_is_a_job_where_the_pod_grouper_knows_its_minimum() -> None:
    (job,) = gang("load-gang", "team", line_of("0.16.8"), "t-1")
    assert (job["kind"], job["spec"]["parallelism"]) == ("Job", 2)
    group, *pods = gang("load-gang", "team", line_of("0.9.8"), "t-1")
    assert (group["kind"], group["metadata"]["name"], group["spec"]["minMember"]) == ("PodGroup", "load-gang-t-1", 2)
    assert {pod["metadata"]["annotations"]["pod-group-name"] for pod in pods} == {"load-gang-t-1"}
