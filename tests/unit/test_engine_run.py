"""The engine: order, parallelism, failures, cancel, and what a run says about itself."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from fakes import FakeClock, FakeStep

from lab.engine.events import Bus, Event, RunFinished, RunStarted, StepFinished, StepStarted
from lab.engine.run import Engine, RunRecord
from lab.engine.step import Observed, State
from lab.errors import ApiFailed, CommandFailed, Interrupted, LabError, StepFailed

WAIT = 10.0
"""Seconds after which a barrier gives up: never reached unless the engine is wrong."""


def engine(
    steps: Sequence[FakeStep],
    *,
    cancel: threading.Event | None = None,
    workers: int = 6,
    bus: Bus | None = None,
) -> Engine[str]:
    return Engine(
        steps,
        scope=lambda step: f"ctx {step}",
        bus=bus or Bus(),
        cancel=cancel or threading.Event(),
        workers=workers,
        lab="demo",
    )


def outcomes(record: RunRecord) -> dict[str, str]:
    return {step.step: step.outcome for step in record.steps}


def chain() -> tuple[list[FakeStep], list[str]]:
    """c needs b needs a; listed the wrong way round. They write into one journal."""
    log: list[str] = []
    return [
        FakeStep("c", ("b",), journal=log),
        FakeStep("b", ("a",), journal=log),
        FakeStep("a", journal=log),
    ], log


def test_up_follows_needs_not_the_order_of_the_list() -> None:
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


def test_step_that_does_not_verify_has_failed() -> None:
    step = FakeStep("a", act={"verify": LabError("no GPU is visible")})
    record = engine([step]).up()
    assert outcomes(record) == {"a": "failed"}
    assert record.steps[0].detail == "no GPU is visible"


def test_independent_steps_run_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=WAIT)
    steps = [FakeStep(name, act={"apply": lambda _: meeting.wait() and None}) for name in "abc"]
    assert engine(steps).up().ok  # each waits for the two others


def test_never_more_steps_than_workers() -> None:
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


def test_failure_blocks_what_needs_it_and_nothing_else() -> None:
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


def test_all_failures_are_told() -> None:
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


def test_plain_lab_error_has_the_exit_code_of_a_step() -> None:
    record = engine([FakeStep("a", act={"apply": LabError("no")})]).up()
    with pytest.raises(StepFailed) as caught:
        record.raise_failure()
    assert caught.value.exit_code == StepFailed.exit_code


def test_good_run_raises_nothing() -> None:
    engine([FakeStep("a")]).up().raise_failure()


def test_down_goes_from_users_to_used() -> None:
    steps, log = chain()
    record = engine(steps).down()
    assert log == ["undo c", "undo b", "undo a"]
    assert record.ok


def test_down_goes_on_past_failures_and_tells_them_all() -> None:
    steps, log = chain()
    steps[0].act["undo"] = LabError("c is stuck")
    steps[1].act["undo"] = LabError("b is stuck")
    record = engine(steps).down()
    assert log == ["undo c", "undo b", "undo a"]
    assert outcomes(record) == {"c": "failed", "b": "failed", "a": "changed"}
    with pytest.raises(StepFailed) as caught:
        record.raise_failure()
    assert caught.value.what == "c: c is stuck"
    assert caught.value.evidence == ("b: also failed: b is stuck",)


def test_cancel_starts_nothing_new() -> None:
    cancel = threading.Event()
    steps = [FakeStep("a", act={"apply": lambda _: cancel.set()}), FakeStep("b", ("a",)), FakeStep("c")]
    record = engine(steps, cancel=cancel, workers=1).up()
    assert outcomes(record) == {"a": "changed"}  # what was begun may end well
    assert record.cancelled
    assert not record.ok
    assert steps[2].verbs == []
    with pytest.raises(Interrupted, match="lab up"):
        record.raise_failure()


def test_cancel_ends_running_steps_as_cancelled_not_failed() -> None:
    cancel = threading.Event()
    steps = [
        FakeStep("a", act={"apply": Interrupted("ended by the interrupt: kind create")}),
        FakeStep("b", ("a",)),
    ]
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


def test_cancel_after_the_last_step_stopped_nothing() -> None:
    cancel = threading.Event()
    record = engine([FakeStep("a", act={"verify": lambda _: cancel.set()})], cancel=cancel).up()
    assert record.ok
    record.raise_failure()


def test_failure_before_the_cancel_is_not_lost() -> None:
    cancel = threading.Event()
    steps = [
        FakeStep("a", act={"apply": LabError("disk full")}),
        FakeStep("b", act={"apply": lambda _: cancel.set()}),
        FakeStep("c"),
    ]
    record = engine(steps, cancel=cancel, workers=1).up()
    with pytest.raises(Interrupted) as caught:
        record.raise_failure()
    assert caught.value.evidence == ("a: failed before: disk full",)


def test_broken_event_loop_stops_the_running_steps() -> None:
    """An exception out of the engine's loop must not wait for commands of minutes."""
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


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([FakeStep("a", ("b",)), FakeStep("b", ("a",))], "circle: "),
        ([FakeStep("a", ("a",))], "circle: a → a"),
        ([FakeStep("a", ("nowhere", "b")), FakeStep("b")], "step a needs unknown steps: nowhere"),
        ([FakeStep("a"), FakeStep("a")], "two steps are called a"),
    ],
)
def test_impossible_plans_are_refused(steps: list[FakeStep], message: str) -> None:
    with pytest.raises(LabError, match=message):
        engine(steps)


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
    steps = [
        FakeStep("cluster", done=True),
        FakeStep("kai", ("cluster",), act={"observe": ApiFailed("forbidden")}),
    ]
    with pytest.raises(StepFailed, match="kai: forbidden"):
        engine(steps).observe()


def test_observe_can_be_cancelled() -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Interrupted):
        engine([FakeStep("a")], cancel=cancel).observe()


def test_context_is_made_for_each_step() -> None:
    got: list[object] = []
    engine([FakeStep("a", act={"apply": got.append}), FakeStep("b", ("a",), act={"apply": got.append})]).up()
    assert got == ["ctx a", "ctx b"]


def test_events_and_times(clock: FakeClock) -> None:
    events: list[Event] = []
    bus = Bus(clock)
    bus.subscribe(events.append)
    steps = [
        FakeStep("a", act={"apply": lambda _: clock.advance(5)}),
        FakeStep("b", ("a",), done=True, act={"observe": lambda _: clock.advance(0.5)}),
    ]
    record = Engine(
        steps, scope=str, bus=bus, cancel=threading.Event(), workers=1, clock=clock, lab="demo"
    ).up(estimate=9.0)
    assert events == [
        RunStarted("demo", "up", (("a", "A"), ("b", "B")), 9.0, at=0.0),
        StepStarted("a", at=0.0),
        StepFinished("a", "changed", 5.0, "nothing", at=5.0),
        StepFinished("b", "unchanged", 0.5, "there", at=5.5),
        RunFinished(True, 5.5, 1, at=5.5),
    ]
    assert record.seconds == 5.5


def test_time_spent_waiting_for_a_worker_is_not_the_steps_time(clock: FakeClock) -> None:
    steps = [FakeStep(name, act={"apply": lambda _: clock.advance(3)}) for name in "abc"]
    record = Engine(steps, scope=str, bus=Bus(clock), cancel=threading.Event(), workers=1, clock=clock).up()
    assert [step.seconds for step in record.steps] == [3.0, 3.0, 3.0]
