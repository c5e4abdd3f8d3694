"""Differences between two plans, and undoing steps."""

from __future__ import annotations

from lab.engine.delta import PlanDelta
from tests.support.engine_world import engine, outcomes
from tests.support.fakes import FakeStep


def test_delta_lists_removed_and_new_or_changed_steps() -> None:
    before = [FakeStep("kept"), FakeStep("changed", want=1), FakeStep("gone")]
    after = [FakeStep("kept"), FakeStep("new", ("changed",)), FakeStep("changed", want=2)]
    delta = PlanDelta.between(before, after)
    assert [step.id for step in delta.gone] == ["gone"]
    assert [step.id for step in delta.applied] == ["new", "changed"]


def test_delta_to_and_from_an_empty_plan() -> None:
    steps = [FakeStep("a"), FakeStep("b")]
    assert PlanDelta.between(steps, []).gone == PlanDelta.between([], steps).applied == tuple(steps)


def test_part_is_undone_with_the_step_it_belongs_to() -> None:
    whole = FakeStep("cluster")
    part = FakeStep("kai", ("cluster",), part_of="cluster")
    record = engine([whole, part]).down()
    assert (whole.verbs, part.verbs) == (["undo", "remains"], [])
    assert outcomes(record) == {"cluster": "changed"}
    engine([part], partial=True).down()
    assert part.verbs == ["undo", "remains"], "a part alone is undone by its own step"


def test_down_reports_what_remains() -> None:
    steps = [FakeStep("a", left=("volume x",)), FakeStep("b", ("a",), left=("container y",))]
    assert engine(steps).down().left == ["container y", "volume x"]


def test_undo_runs_one_step_at_a_time_in_reverse_order() -> None:
    log: list[str] = []
    steps = [FakeStep(name, journal=log) for name in ("nodes", "isolation", "tenant")]
    engine(steps).down()
    assert log[:3] == ["undo tenant", "undo isolation", "undo nodes"], "isolation stays until the tenant is gone"


def test_failed_undo_blocks_earlier_steps() -> None:
    steps = [FakeStep("isolation"), FakeStep("tenant", act={"undo": RuntimeError("stuck")})]
    record = engine(steps).down(past_failures=False)
    assert outcomes(record) == {"tenant": "failed", "isolation": "blocked"}
    assert steps[0].verbs == ["remains"]
