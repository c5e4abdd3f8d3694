"""A KAI on the host that the lab did not install, beside tenants with their own KAI."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.engine.step import State
from lab.errors import LabError
from lab.tenants.isolation.foreign_kai import NoForeignKai
from lab.tenants.steps import tenant_steps
from tests.support.explain_world import Scene, deployment
from tests.support.fakes import FakeRunner
from tests.support.isolation_world import DIVIDING, IMAGE, SPEC, put, scene
from tests.support.lab_world import LabWorld

LAB = SPEC.model_copy(update={"scheduler": "default"})


def by_hand() -> Scene:
    """KAI as a user installs it: it handles all namespaces and nodes."""
    made = Scene("")
    for name in ("pod-grouper", "kai-scheduler-default", "binder"):
        made.add(deployment(name, "kai-scheduler", IMAGE))
    return made


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path) -> LabWorld:
    return LabWorld(LAB, runner, tmp_path)


def test_step_guards_tenants_with_their_own_kai_in_a_lab_without_host_kai() -> None:
    needs = {step.id: step.needs for step in tenant_steps(LAB)}
    assert needs["kai:ml"] == ("tenant:ml", "host-kai")
    assert "host-kai" in needs["tenant:ml"], "the tenant's namespace is not created either"
    assert "host-kai" not in {step.id for step in tenant_steps(SPEC)}, "there the step isolation looks"
    assert "host-kai" not in {step.id for step in tenant_steps(LAB.model_copy(update={"tenants": ()}))}


def test_host_without_kai_is_ready(world: LabWorld) -> None:
    put(world, Scene(""))
    seen = NoForeignKai(LAB).observe(world.ctx)
    assert (seen.state, seen.detail) == (State.READY, "none")
    NoForeignKai(LAB).apply(world.ctx)


def test_kai_of_a_user_is_named_with_the_missing_measures(world: LabWorld) -> None:
    put(world, by_hand())
    seen = NoForeignKai(LAB).observe(world.ctx)
    assert (seen.state, seen.detail) == (
        State.DRIFTED,
        "KAI 0.16.8 in namespace kai-scheduler is not the lab's, and tenants are not isolated from it",
    )
    assert {line.partition(":")[0] for line in seen.diff} == {"namespace-opt-in", "dedicated-nodes", "deny-host-kai"}
    with pytest.raises(LabError, match=r"KAI 0\.16\.8 in namespace kai-scheduler is not the lab's.*\(ml\)") as refused:
        NoForeignKai(LAB).apply(world.ctx)
    assert refused.value.evidence == seen.diff
    assert "helm list -n kai-scheduler" in refused.value.fix
    assert world.log == []


def test_kai_that_its_owner_has_isolated_is_accepted(world: LabWorld) -> None:
    put(world, scene().add(deployment("binder", "kai-scheduler", IMAGE, args=DIVIDING)))
    seen = NoForeignKai(LAB).observe(world.ctx)
    assert (seen.state, seen.detail) == (State.READY, "KAI 0.16.8 in namespace kai-scheduler, isolated from tenants")
