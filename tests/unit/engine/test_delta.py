"""What leads from one plan to another."""

from __future__ import annotations

from lab.engine.delta import PlanDelta
from tests.support.engine_world import engine, outcomes
from tests.support.fakes import FakeStep


def test_new_changed_and_gone() -> None:
    before = [FakeStep("kept"), FakeStep("changed", want=1), FakeStep("gone")]
    after = [FakeStep("kept"), FakeStep("new", ("changed",)), FakeStep("changed", want=2)]
    delta = PlanDelta.between(before, after)
    assert [step.id for step in delta.gone] == ["gone"]
    assert [step.id for step in delta.applied] == ["new", "changed"]


def test_to_and_from_nothing() -> None:
    steps = [FakeStep("a"), FakeStep("b")]
    assert PlanDelta.between(steps, []).gone == PlanDelta.between([], steps).applied == tuple(steps)


def test_a_part_goes_with_the_step_it_is_part_of() -> None:
    whole = FakeStep("cluster")
    part = FakeStep("kai", ("cluster",), part_of="cluster")
    record = engine([whole, part]).down()
    assert (whole.verbs, part.verbs) == (["undo", "remains"], [])
    assert outcomes(record) == {"cluster": "changed"}
    engine([part], partial=True).down()
    assert part.verbs == ["undo", "remains"], "alone it is undone itself"


def test_what_remains_is_the_proof() -> None:
    steps = [FakeStep("a", left=("volume x",)), FakeStep("b", ("a",), left=("container y",))]
    assert engine(steps).down().left == ["container y", "volume x"]


def test_undo_goes_backwards_through_the_plan_one_by_one() -> None:
    log: list[str] = []
    steps = [FakeStep(name, journal=log) for name in ("nodes", "isolation", "tenant")]
    engine(steps).down()
    assert log[:3] == ["undo tenant", "undo isolation", "undo nodes"], "measures stay until the tenant is gone"


def test_what_comes_later_stays_where_an_undo_failed() -> None:
    steps = [FakeStep("isolation"), FakeStep("tenant", act={"undo": RuntimeError("stuck")})]
    record = engine(steps).down(past_failures=False)
    assert outcomes(record) == {"tenant": "failed", "isolation": "blocked"}
    assert steps[0].verbs == ["remains"]
