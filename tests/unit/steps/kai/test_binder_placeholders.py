"""Binder placeholders let the host's binder start while tenants share GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.steps.kai import binder_placeholders
from lab.tenants.isolation.step import Isolation
from tests.support.explain_world import deployment, pod
from tests.support.fakes import FakeRunner
from tests.support.isolation_world import IMAGE, MINE, SPACE, SPEC, Json, put, scene
from tests.support.lab_world import LabWorld


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path) -> LabWorld:
    return LabWorld(SPEC, runner, tmp_path)


def sharing(name: str, group: str, where: str = SPACE, **more: Any) -> Json:
    return pod(name, where, node=MINE, ready=True, labels={"runai-gpu-group": group}, **more)


def test_shared_groups_are_those_of_running_tenant_pods() -> None:
    objects = scene().add(sharing("a", "g1"), sharing("b", "g1"), sharing("c", "g2"))
    objects.add(sharing("host", "g3", "team"), pod("waits", SPACE, labels={"runai-gpu-group": "g4"}))
    assert binder_placeholders.shared_groups(objects.world) == ("g1", "g2")


def test_placeholders_are_gated_and_not_reservation_pods() -> None:
    one, two = binder_placeholders.placeholder_pods(("g1", "g2"), "demo", "kai-resource-reservation")
    assert one["metadata"]["name"] != two["metadata"]["name"]
    assert one["metadata"]["labels"] == {"kailab": "demo", "app": "kailab-stand-in", "runai-gpu-group": "g1"}
    assert one["spec"]["schedulingGates"]


def test_blocked_binder_is_started_with_placeholders(world: LabWorld) -> None:
    objects = scene().add(sharing("a", "g1"), deployment("binder", "kai-scheduler", IMAGE, have=0))
    api = put(world, objects)
    seen = Isolation(SPEC).observe(world.ctx)
    assert "binder cannot start" in seen.diff[-1]
    api.after("watch", "*", lambda _: api.add(deployment("binder", "kai-scheduler", IMAGE)))
    Isolation(SPEC).apply(world.ctx)
    name = binder_placeholders.placeholder_pods(("g1",), "demo", "x")[0]["metadata"]["name"]
    assert world.log[-3:] == [
        f"apply Pod {name}",
        "delete all Pod in kai-scheduler grace 0",
        "delete all Pod in kai-resource-reservation grace 0",
    ]


def test_no_placeholders_are_created_without_shared_gpus(world: LabWorld) -> None:
    api = put(world, scene())
    with binder_placeholders.placeholders(api.cluster, "demo", Isolation(SPEC).line) as groups:  # type: ignore[arg-type]
        assert groups == ()
    assert world.log == []


def test_placeholders_are_deleted_after_a_failure(world: LabWorld) -> None:
    api = put(world, scene().add(sharing("a", "g1")))
    with pytest.raises(ZeroDivisionError), binder_placeholders.placeholders(api.cluster, "demo", Isolation(SPEC).line):  # type: ignore[arg-type]
        _ = 1 / 0
    assert world.log[-1] == "delete all Pod in kai-resource-reservation grace 0"
    assert api.waits == []
