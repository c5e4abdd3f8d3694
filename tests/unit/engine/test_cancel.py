"""A cancelled run: no new step starts, running steps end, and earlier failures are reported."""

from __future__ import annotations

import threading

import pytest

from lab.engine.events import Bus, Event, StepFinished
from lab.errors import Interrupted, LabError
from tests.support.engine_world import WAIT, engine, outcomes
from tests.support.fakes import FakeStep


def test_no_step_starts_after_cancel() -> None:
    cancel = threading.Event()
    steps = [FakeStep("a", act={"apply": lambda _: cancel.set()}), FakeStep("b", ("a",)), FakeStep("c")]
    record = engine(steps, cancel=cancel, workers=1).up()
    assert outcomes(record) == {"a": "changed"}  # a started step may finish
    assert record.cancelled
    assert not record.ok
    assert steps[2].verbs == []
    with pytest.raises(Interrupted, match="kailab up"):
        record.raise_failure()


def test_interrupted_step_is_cancelled_not_failed() -> None:
    cancel = threading.Event()
    steps = [FakeStep("a", act={"apply": Interrupted("ended by the interrupt: kind create")}), FakeStep("b", ("a",))]
    record = engine(steps, cancel=cancel).up()
    assert outcomes(record) == {"a": "cancelled"}
    assert record.errors == []
    assert cancel.is_set()
    assert record.cancelled


def test_cancel_during_observe_applies_nothing() -> None:
    cancel = threading.Event()
    step = FakeStep("a", act={"observe": lambda _: cancel.set()})
    record = engine([step], cancel=cancel).up()
    assert step.verbs == ["observe"]
    assert outcomes(record) == {"a": "cancelled"}


def test_cancel_after_the_last_step_is_no_failure() -> None:
    cancel = threading.Event()
    record = engine([FakeStep("a", act={"verify": lambda _: cancel.set()})], cancel=cancel).up()
    assert record.ok
    record.raise_failure()


def test_failure_before_cancel_is_reported() -> None:
    cancel = threading.Event()
    steps = [
        FakeStep("a", act={"apply": LabError("disk full")}),
        FakeStep("b", act={"apply": lambda _: cancel.set()}),
        FakeStep("c"),
    ]
    record = engine(steps, cancel=cancel, workers=1).up()
    with pytest.raises(Interrupted) as caught:
        record.raise_failure()
    assert caught.value.evidence == ("a: had already failed: disk full",)


def test_exception_in_the_run_loop_cancels_running_steps() -> None:
    """An exception in the engine's loop must not wait for commands that take minutes."""
    cancel = threading.Event()
    started = threading.Event()

    def work(_: object) -> None:
        started.set()
        if not cancel.wait(WAIT):
            raise AssertionError("was not cancelled")

    def interrupt(event: Event) -> None:
        if isinstance(event, StepFinished):
            raise KeyboardInterrupt

    bus = Bus()
    bus.subscribe(interrupt)
    quick = FakeStep("quick", act={"apply": lambda _: started.wait(WAIT) and None})
    with pytest.raises(KeyboardInterrupt):
        engine([quick, FakeStep("slow", act={"apply": work})], cancel=cancel, bus=bus).up()
    assert cancel.is_set()
