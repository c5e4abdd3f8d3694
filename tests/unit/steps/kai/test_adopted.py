"""The KAI of somebody else: used as it is, and never changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.engine.step import State
from lab.errors import LabError
from lab.steps import kai
from lab.steps.kai.adopted import AdoptedKai, find_kai
from lab.steps.kai.step import NAMESPACE
from tests.support.explain_world import deployment
from tests.support.fake_api_server import FakeApiServer
from tests.support.fakes import FakeRunner
from tests.support.kai_install import add_kai_of_others
from tests.support.lab_world import LabWorld
from tests.support.specs import EXISTING, lab_spec


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path) -> LabWorld:
    spec = lab_spec(cluster=EXISTING)
    section = spec.kai.model_copy(update={"manage": "adopt", "version": "0.14.2"})
    return LabWorld(spec.model_copy(update={"kai": section, "scheduler": "kai"}), runner, tmp_path)


def test_kai_is_found_with_its_version() -> None:
    api = FakeApiServer()
    assert find_kai(api.cluster) is None
    add_kai_of_others(api, "0.9.8")
    found = find_kai(api.cluster)
    assert found is not None
    assert (found.version, found.namespace) == ("0.9.8", NAMESPACE)


def test_running_kai_is_ready_and_its_owner_named(world: LabWorld) -> None:
    add_kai_of_others(world.api, "0.14.2")
    (step,) = kai.kai_steps(world.spec)
    assert isinstance(step, AdoptedKai)
    assert (step.title, step.needs, step.effects()) == ("KAI Scheduler 0.14.2, adopted", ("network",), ())
    seen = step.observe(world.ctx)
    assert (seen.state, seen.detail) == (
        State.READY,
        "namespace kai-scheduler belongs to Helm release kai-scheduler/theirs",
    )
    step.apply(world.ctx)
    step.verify(world.ctx)
    step.undo(world.ctx)
    assert world.log == []
    assert world.ctx.journal.owned() == ()


@pytest.mark.parametrize(
    ("version", "down", "detail"),
    [
        ("", (), "it is gone"),
        ("0.16.8", (), "version 0.16.8 runs, and the lab was made for 0.14.2"),
        ("0.14.2", ("binder",), "Deployment kai-scheduler/binder: 0 of 1 available"),
    ],
)
def test_unusable_kai_is_left_to_its_owner(
    world: LabWorld, monkeypatch: pytest.MonkeyPatch, version: str, down: tuple[str, ...], detail: str
) -> None:
    if version:
        add_kai_of_others(world.api, version, down=down)
    step = AdoptedKai(world.spec)
    seen = step.observe(world.ctx)
    assert (seen.state, seen.detail) == (State.DRIFTED, detail)
    monkeypatch.setattr(world.api.cluster, "poll", lambda check, **_: check())  # does not wait
    with pytest.raises(LabError, match=detail) as refused:
        step.apply(world.ctx)
    assert "kai.manage to install" in refused.value.fix
    assert world.log == []


def test_kai_that_restarts_is_waited_for(world: LabWorld) -> None:
    add_kai_of_others(world.api, "0.14.2", down=("binder",))
    world.api.after(
        "list",
        "Deployment",
        lambda _: world.api.add(deployment("binder", NAMESPACE, "registry.kailab.dev/binder:v0.14.2")),
    )
    AdoptedKai(world.spec).apply(world.ctx)


def test_adopted_kai_needs_neither_images_nor_a_chart(world: LabWorld) -> None:
    assert not kai.wanted(world.spec)
    assert kai.images(world.spec) == kai.charts(world.spec) == ()
