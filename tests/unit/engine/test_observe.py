"""Looking at a lab: nothing changes, and a broken lab can still be looked at."""

from __future__ import annotations

import threading

import pytest

from lab.engine.events import Bus, Event
from lab.engine.step import Observed, State
from lab.errors import ApiFailed, Interrupted, StepFailed
from tests.support.engine_world import chain, engine
from tests.support.fakes import FakeStep


def test_observe_asks_no_child_of_an_absent_step() -> None:
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


def test_observe_changes_nothing_and_says_nothing() -> None:
    steps, log = chain()
    events: list[Event] = []
    bus = Bus()
    bus.subscribe(events.append)
    engine(steps, bus=bus).observe()
    assert log == ["observe a"]
    assert events == []


def test_observe_survives_a_child_of_a_drifted_step_that_cannot_answer() -> None:
    refused = ApiFailed("connection refused")
    steps = [
        FakeStep("cluster", seen=Observed.drifted("stopped")),
        FakeStep("kai", ("cluster",), act={"observe": refused}),
    ]
    seen = engine(steps).observe()["kai"]
    assert seen.state is State.DRIFTED
    assert "connection refused" in seen.detail


def test_observe_of_a_healthy_lab_raises_what_it_cannot_see() -> None:
    steps = [FakeStep("cluster", done=True), FakeStep("kai", ("cluster",), act={"observe": ApiFailed("forbidden")})]
    with pytest.raises(StepFailed, match="kai: forbidden"):
        engine(steps).observe()


def test_observe_can_be_cancelled() -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Interrupted):
        engine([FakeStep("a")], cancel=cancel).observe()
