"""The engine: order, parallelism, failures and run records."""

from __future__ import annotations

import threading

import pytest

from lab.engine.events import Bus, Event, RunFinished, RunStarted, StepFinished, StepStarted
from lab.engine.run import Engine
from lab.engine.step import Observed
from lab.errors import CommandFailed, LabError, StepFailed
from tests.support.engine_world import WAIT, chain, engine, outcomes
from tests.support.fakes import FakeClock, FakeStep


def test_up_applies_steps_in_order_of_their_needs() -> None:
    steps, log = chain()
    record = engine(steps).up()
    assert [entry for entry in log if entry.startswith("apply")] == ["apply a", "apply b", "apply c"]
    assert log.index("verify a") < log.index("observe b")
    assert outcomes(record) == {"a": "changed", "b": "changed", "c": "changed"}
    assert record.ok
    assert record.changed == 3


def test_second_up_changes_nothing() -> None:
    steps, log = chain()
    engine(steps).up()
    log.clear()
    record = engine(steps).up()
    assert log == ["observe a", "observe b", "observe c"]
    assert record.changed == 0
    assert [step.detail for step in record.steps] == ["there", "there", "there"]


def test_drifted_step_is_applied_again() -> None:
    step = FakeStep("a", seen=Observed.drifted("1 node stopped", ["worker: exited"]))
    assert outcomes(engine([step]).up()) == {"a": "changed"}
    assert step.verbs == ["observe", "apply", "verify"]


def test_step_that_fails_to_verify_has_failed() -> None:
    step = FakeStep("a", act={"verify": LabError("no GPU is visible")})
    record = engine([step]).up()
    assert outcomes(record) == {"a": "failed"}
    assert record.steps[0].detail == "no GPU is visible"


def test_independent_steps_run_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=WAIT)
    steps = [FakeStep(name, act={"apply": lambda _: meeting.wait() and None}) for name in "abc"]
    assert engine(steps).up().ok  # each step waits for the other two


def test_at_most_as_many_steps_run_as_workers() -> None:
    lock, now, most = threading.Lock(), [0], [0]
    pair = threading.Barrier(2, timeout=WAIT)

    def work(_: object) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        pair.wait()
        with lock:
            now[0] -= 1

    steps = [FakeStep(name, act={"apply": work}) for name in "abcdef"]
    assert engine(steps, workers=2).up().ok
    assert most == [2]


def test_failure_blocks_dependents_only() -> None:
    steps = [
        FakeStep("a", act={"apply": CommandFailed(["kind", "create"], 1, err="no space left on device")}),
        FakeStep("b", ("a",)),
        FakeStep("c", ("b",)),
        FakeStep("x"),
        FakeStep("y", ("x",)),
    ]
    record = engine(steps).up()
    assert outcomes(record) == {"a": "failed", "b": "blocked", "c": "blocked", "x": "changed", "y": "changed"}
    assert steps[1].verbs == []
    with pytest.raises(StepFailed) as caught:
        record.raise_failure()
    assert caught.value.what == "a: kind ended with status 1"
    assert caught.value.command == "kind create"
    assert caught.value.evidence == ("no space left on device",)
    assert caught.value.exit_code == CommandFailed.exit_code


def test_all_failures_are_reported() -> None:
    both = threading.Barrier(2, timeout=WAIT)

    def fail(_: object) -> None:
        both.wait()
        raise ValueError

    record = engine([FakeStep(name, act={"apply": fail}) for name in "ab"]).up()
    with pytest.raises(StepFailed) as caught:
        record.raise_failure()
    first, second = (step for step, _ in record.errors)
    assert caught.value.what.startswith(f"{first}: ValueError")
    assert caught.value.evidence == (f"{second}: also failed: ValueError",)
    assert caught.value.exit_code == StepFailed.exit_code


def test_plain_lab_error_ends_with_the_step_exit_code() -> None:
    record = engine([FakeStep("a", act={"apply": LabError("no")})]).up()
    with pytest.raises(StepFailed) as caught:
        record.raise_failure()
    assert caught.value.exit_code == StepFailed.exit_code


def test_successful_run_raises_no_failure() -> None:
    engine([FakeStep("a")]).up().raise_failure()


def test_down_undoes_dependents_first() -> None:
    steps, log = chain()
    record = engine(steps[::-1], workers=1).down()
    assert log[:3] == ["undo c", "undo b", "undo a"]
    assert record.ok


def test_down_continues_past_failures_and_reports_all() -> None:
    steps, log = chain()
    steps[0].act["undo"] = LabError("c is stuck")
    steps[1].act["undo"] = LabError("b is stuck")
    record = engine(steps[::-1], workers=1).down()
    assert log[:3] == ["undo c", "undo b", "undo a"]
    assert outcomes(record) == {"c": "failed", "b": "failed", "a": "changed"}
    with pytest.raises(StepFailed) as caught:
        record.raise_failure()
    assert caught.value.what == "c: c is stuck"
    assert caught.value.evidence == ("b: also failed: b is stuck",)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([FakeStep("a", ("b",)), FakeStep("b", ("a",))], "circular step needs: "),
        ([FakeStep("a", ("a",))], "circular step needs: a → a"),
        ([FakeStep("a", ("nowhere", "b")), FakeStep("b")], "step a needs unknown steps: nowhere"),
        ([FakeStep("a"), FakeStep("a")], "two steps have the id a"),
    ],
)
def test_invalid_plans_are_refused(steps: list[FakeStep], message: str) -> None:
    with pytest.raises(LabError, match=message):
        engine(steps)


def test_each_step_gets_its_own_context() -> None:
    contexts: list[object] = []
    engine([FakeStep("a", act={"apply": contexts.append}), FakeStep("b", ("a",), act={"apply": contexts.append})]).up()
    assert contexts == ["ctx a", "ctx b"]


def test_run_emits_events_with_times(clock: FakeClock) -> None:
    events: list[Event] = []
    bus = Bus(clock)
    bus.subscribe(events.append)
    steps = [
        FakeStep("a", act={"apply": lambda _: clock.advance(5)}),
        FakeStep("b", ("a",), done=True, act={"observe": lambda _: clock.advance(0.5)}),
    ]
    record = Engine(steps, scope=str, bus=bus, cancel=threading.Event(), workers=1, clock=clock, lab="demo").up(
        estimate=9.0
    )
    assert events == [
        RunStarted("demo", "up", (("a", "A"), ("b", "B")), 9.0, at=0.0),
        StepStarted("a", at=0.0),
        StepFinished("a", "changed", 5.0, "nothing", at=5.0),
        StepFinished("b", "unchanged", 0.5, "there", at=5.5),
        RunFinished(True, 5.5, 1, at=5.5),
    ]
    assert record.seconds == 5.5


def test_step_time_excludes_waiting_for_a_worker(clock: FakeClock) -> None:
    steps = [FakeStep(name, act={"apply": lambda _: clock.advance(3)}) for name in "abc"]
    record = Engine(steps, scope=str, bus=Bus(clock), cancel=threading.Event(), workers=1, clock=clock).up()
    assert [step.seconds for step in record.steps] == [3.0, 3.0, 3.0]
