"""Step queues: the queues of the lab file on the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.engine.step import State
from lab.errors import StepFailed
from lab.steps.queues import Queues, queue_documents, queue_steps
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.specs import EXISTING, lab_spec

SHARE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def world_of(runner: FakeRunner, tmp_path: Path, **spec: Any) -> LabWorld:
    return LabWorld(lab_spec(**spec), runner, tmp_path)


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path) -> LabWorld:
    return world_of(runner, tmp_path)


def test_queue_documents_have_all_shares_and_parents_first() -> None:
    queues = [
        {"name": "team", "parent": "org", "priority": 150, "gpu": {"quota": 0.5, "limit": 2, "weight": 3}},
        {"name": "org"},
    ]
    org, team = queue_documents(lab_spec(queues=queues))
    assert org["metadata"] == {"name": "org", "labels": {"kailab": "demo"}}
    assert org["spec"] == {"resources": {"cpu": SHARE, "memory": SHARE, "gpu": SHARE}}
    assert team["spec"]["parentQueue"] == "org"
    assert team["spec"]["priority"] == 150
    assert team["spec"]["resources"]["gpu"] == {"quota": 0.5, "limit": 2, "overQuotaWeight": 3}


def test_applied_queues_are_ready(world: LabWorld) -> None:
    step = Queues(world.spec)
    assert step.observe(world.ctx).state is State.ABSENT
    step.apply(world.ctx)
    step.verify(world.ctx)
    assert world.log == ["apply Queue default", "apply Queue test"]
    assert step.observe(world.ctx).state is State.READY


def test_lab_without_queues_has_no_queue_documents() -> None:
    assert queue_documents(lab_spec(queues=[])) == []


def test_differences_are_drift(world: LabWorld) -> None:
    step = Queues(world.spec)
    step.apply(world.ctx)
    test = world.api.objects["Queue", "", "test"]
    del test["spec"]["resources"]["gpu"]["limit"]
    test["spec"]["resources"]["cpu"]["quota"] = 500
    test["spec"]["parentQueue"] = "other"
    seen = step.observe(world.ctx)
    assert seen.state is State.DRIFTED
    assert seen.diff == ("test: parent other → default", "test: cpu quota 500 → -1", "test: gpu limit omitted (0) → -1")


def test_shares_are_compared_as_numbers(world: LabWorld) -> None:
    step = Queues(world.spec)
    step.apply(world.ctx)
    resources = world.api.objects["Queue", "", "test"]["spec"]["resources"]
    resources["gpu"] = {"quota": -1.0, "limit": -1, "overQuotaWeight": 1.0}
    assert step.observe(world.ctx).state is State.READY


def test_queues_not_in_the_lab_file_are_deleted_children_first(world: LabWorld) -> None:
    step = Queues(world.spec)
    step.apply(world.ctx)
    owned = {"labels": {"kailab": "demo"}}
    world.api.put("Queue", "old", metadata=owned, spec={})
    world.api.put("Queue", "older", metadata=owned, spec={"parentQueue": "old"})
    world.api.put("Queue", "foreign", spec={})
    world.api.put("Queue", "default-queue", metadata=owned, spec={})
    assert step.observe(world.ctx).diff == ("old: no longer in the lab file", "older: no longer in the lab file")
    world.log.clear()
    step.apply(world.ctx)
    assert world.log[2:] == ["delete Queue older", "delete Queue old"]


def test_verify_fails_if_a_queue_is_missing(world: LabWorld) -> None:
    step = Queues(world.spec)
    step.apply(world.ctx)
    world.api.remove("Queue", "test")
    with pytest.raises(StepFailed) as caught:
        step.verify(world.ctx)
    assert caught.value.evidence == ("test: missing",)


def test_undo_leaves_queues_to_the_removal_of_the_kind_cluster(world: LabWorld) -> None:
    Queues(world.spec).undo(world.ctx)
    assert world.log == []


def test_queues_of_others_are_neither_changed_nor_deleted(runner: FakeRunner, tmp_path: Path) -> None:
    world = world_of(runner, tmp_path, cluster=EXISTING)
    step = Queues(world.spec)
    world.api.put("Queue", "test", spec={})
    with pytest.raises(StepFailed, match="Queue test was created at an unknown time: lab demo does not change it"):
        step.apply(world.ctx)
    world.api.put("Queue", "mine", metadata={"labels": {"kailab": "demo"}}, spec={})
    step.undo(world.ctx)
    assert world.log == ["delete Queue mine"]


def test_queue_step_exists_only_with_scheduler_kai() -> None:
    assert queue_steps(lab_spec(scheduler="default", queues=[])) == []
    (step,) = queue_steps(lab_spec(scheduler="kai"))
    assert (step.id, step.needs) == ("queues", ("kai",))
    assert step.effects()[0].what == "queues default, test (in default)"
