from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.snapshot.node_info import NodeInfo
from lab.tenants.upgrade import smoke_test
from lab.tenants.upgrade.smoke_test import SmokeTest, run_smoke_tests


def smoke(patch: pytest.MonkeyPatch, *, capacity: int, allocatable: int, used: int, sharing: bool) -> Any:
    """Results by name for a tenant with one node; a pod that is run counts as Ready."""
    view = SimpleNamespace(ready=True, unschedulable=False, gpus=allocatable, name="worker", capacity={})
    gpus = {"nvidia.com/gpu": float(allocatable)}
    info = NodeInfo(view, capacity, gpus, {"nvidia.com/gpu": float(used)}, (), ())  # type: ignore[arg-type]
    patch.setattr(smoke_test, "read_node_infos", lambda cluster: (info,))
    patch.setattr(smoke_test, "_run", lambda place, name, pod: SmokeTest(name, 1.0))
    place: Any = SimpleNamespace(cluster=None)
    return {test.name: test for test in run_smoke_tests(place, "team", sharing=sharing)}


def test_free_gpus_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    found = smoke(monkeypatch, capacity=2, allocatable=2, used=1, sharing=True)
    assert [test.seconds for test in found.values()] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("allocatable", "used"), [pytest.param(2, 2, id="busy"), pytest.param(0, 0, id="all have failed")]
)
def test_gpus_that_cannot_be_tried_leave_something_unproven(
    monkeypatch: pytest.MonkeyPatch, allocatable: int, used: int
) -> None:
    found = smoke(monkeypatch, capacity=2, allocatable=allocatable, used=used, sharing=True)
    assert found["cpu"].seconds == 1.0
    assert found["gpu"] == SmokeTest("gpu", skipped="the tenant has 2 GPUs, none of them free", unproven=True)
    assert found["fraction"] == SmokeTest("fraction", skipped="no GPU of the tenant has 0.1 free", unproven=True)


def test_tenant_without_gpus_or_sharing_lacks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = smoke(monkeypatch, capacity=0, allocatable=0, used=0, sharing=False)
    assert found["gpu"] == SmokeTest("gpu", skipped="the tenant has no GPUs")
    assert found["fraction"] == SmokeTest("fraction", skipped="gpuSharing is off")
