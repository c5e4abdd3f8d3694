"""Observing a lab: read-only, and possible for a broken lab."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lab.engine.events import Bus, Event
from lab.engine.step import Observed, State
from lab.errors import ApiFailed, Interrupted, StepFailed
from tests.support.engine_world import WAIT, chain, engine
from tests.support.fakes import FakeStep


def test_dependents_of_an_absent_step_are_not_observed() -> None:
    steps = [
        FakeStep("cluster"),
        FakeStep("kai", ("cluster",), done=True),
        FakeStep("queues", ("kai",), done=True),
        FakeStep("host", done=True),
    ]
    seen = engine(steps).observe()
    assert {name: o.state for name, o in seen.items()} == {
        "cluster": State.ABSENT,
        "kai": State.ABSENT,
        "queues": State.ABSENT,
        "host": State.READY,
    }
    assert steps[1].verbs == steps[2].verbs == []


def test_steps_before_a_gate_do_not_wait_for_each_other() -> None:
    both = threading.Barrier(2)

    def meet(_: object) -> None:
        both.wait(WAIT)

    steps = [FakeStep("image", done=True), FakeStep("cluster", ("image",), done=True), FakeStep("kai", ("cluster",))]
    for step in steps[:2]:
        step.act["observe"] = meet
    assert engine(steps).observe("cluster").keys() == {"image", "cluster", "kai"}


def test_observe_changes_nothing_and_emits_no_events() -> None:
    steps, log = chain()
    events: list[Event] = []
    bus = Bus()
    bus.subscribe(events.append)
    engine(steps, bus=bus).observe()
    assert log == ["observe a"]
    assert events == []


def test_failing_observe_below_a_drifted_step_is_drift() -> None:
    error = ApiFailed("connection refused")
    steps = [
        FakeStep("cluster", seen=Observed.drifted("stopped")),
        FakeStep("kai", ("cluster",), act={"observe": error}),
    ]
    seen = engine(steps).observe()["kai"]
    assert seen.state is State.DRIFTED
    assert "connection refused" in seen.detail


def test_failing_observe_below_a_ready_step_is_raised() -> None:
    steps = [FakeStep("cluster", done=True), FakeStep("kai", ("cluster",), act={"observe": ApiFailed("forbidden")})]
    with pytest.raises(StepFailed, match="kai: forbidden"):
        engine(steps).observe()


def test_observe_can_be_cancelled() -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Interrupted):
        engine([FakeStep("a")], cancel=cancel).observe()


def lab(cluster: Observed, network: Observed, **kai: Any) -> list[FakeStep]:
    return [
        FakeStep("cluster", seen=cluster),
        FakeStep("network", ("cluster",), seen=network),
        FakeStep("kai", ("network",), **kai),
    ]


def test_steps_behind_the_gate_do_not_wait_for_each_other() -> None:
    meeting = threading.Barrier(2, timeout=WAIT)
    steps = lab(Observed.ready(), Observed.ready(), done=True)
    for step in steps[1:]:
        step.act["observe"] = lambda _: meeting.wait() and None
    seen = engine(steps).observe("cluster")
    assert {one.state for one in seen.values()} == {State.READY}


@pytest.mark.parametrize(
    ("network", "state"), [(Observed.absent(), State.ABSENT), (Observed.drifted("x"), State.DRIFTED)]
)
def test_what_a_step_needs_decides_also_when_it_was_observed_before(network: Observed, state: State) -> None:
    steps = lab(Observed.ready(), network, act={"observe": ApiFailed("connection refused")})
    assert engine(steps).observe("cluster")["kai"].state is state


def test_failure_behind_the_gate_is_raised_if_all_that_the_step_needs_is_ready() -> None:
    steps = lab(Observed.ready(), Observed.ready(), act={"observe": ApiFailed("forbidden")})
    with pytest.raises(StepFailed, match="kai: forbidden"):
        engine(steps).observe("cluster")


def test_failure_of_the_gate_is_raised_alone() -> None:
    steps = lab(Observed.ready(), Observed.ready())
    steps[0].act["observe"] = ApiFailed("forbidden")
    with pytest.raises(StepFailed, match="cluster: forbidden") as caught:
        engine(steps).observe("cluster")
    assert caught.value.evidence == ()
    assert steps[1].verbs == steps[2].verbs == []


def test_nothing_is_observed_behind_a_gate_that_is_not_ready() -> None:
    steps = lab(Observed.drifted("stopped"), Observed.ready(), done=True)
    seen = engine(steps).observe("cluster", stop=True)
    assert {one.state for one in seen.values()} == {State.DRIFTED}
    assert steps[1].verbs == steps[2].verbs == []


def test_up_does_not_observe_again_what_was_ready_until_it_applies_a_step() -> None:
    steps = [FakeStep("a", done=True), FakeStep("b", ("a",)), FakeStep("c", ("b",), done=True)]
    ready = {step.id: Observed.ready("seen") for step in steps if step.done}
    record = engine(steps).up(seen={**ready, "b": Observed.absent()})
    assert [(step.step, step.outcome, step.detail) for step in record.steps] == [
        ("a", "unchanged", "seen"),
        ("b", "changed", "nothing"),
        ("c", "unchanged", "there"),
    ]
    assert steps[0].verbs == []
