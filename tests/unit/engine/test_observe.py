"""Observing a lab: read-only, and possible for a broken lab."""

from __future__ import annotations

import threading

import pytest

from lab.engine.events import Bus, Event
from lab.engine.step import Observed, State
from lab.errors import ApiFailed, Interrupted, StepFailed
from tests.support.engine_world import chain, engine
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
