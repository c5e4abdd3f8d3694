"""The event bus: order, time stamps and failing subscribers."""

from __future__ import annotations

import json
import threading

from lab.engine.events import Bus, Event, Notice, RunStarted, StepFinished, StepProgress
from lab.serialization import to_json
from tests.support.fakes import FakeClock


def test_event_times_are_relative_to_the_start_of_the_run(clock: FakeClock) -> None:
    bus, events = Bus(clock), list[Event]()
    bus.subscribe(events.append)
    clock.advance(100)
    bus.emit(RunStarted("demo", "up", ()))
    clock.advance(2.5)
    bus.emit(StepProgress("kai", "waiting"))
    assert [event.at for event in events] == [0.0, 2.5]


def test_unsubscribed_listener_gets_no_more_events() -> None:
    bus, events = Bus(), list[Event]()
    stop = bus.subscribe(events.append)
    bus.emit(Notice("info", "one"))
    stop()
    stop()
    bus.emit(Notice("info", "two"))
    assert len(events) == 1


def test_failing_subscriber_is_dropped_with_a_notice() -> None:
    bus, events = Bus(), list[Event]()

    def closed_terminal(event: Event) -> None:
        raise BrokenPipeError("gone")

    bus.subscribe(closed_terminal)
    bus.subscribe(events.append)
    bus.emit(Notice("info", "one"))
    bus.emit(Notice("info", "two"))
    texts = [event.text for event in events if isinstance(event, Notice)]
    assert texts[1:] == ["one", "two"]
    assert "closed_terminal" in texts[0]
    assert "BrokenPipeError: gone" in texts[0]


def test_subscriber_may_emit_events(clock: FakeClock) -> None:
    bus, events = Bus(clock), list[Event]()
    bus.subscribe(lambda event: bus.emit(Notice("info", "echo")) if isinstance(event, RunStarted) else None)
    bus.subscribe(events.append)
    bus.emit(RunStarted("demo", "up", ()))
    assert {type(event) for event in events} == {RunStarted, Notice}


def test_events_of_many_threads_are_delivered_one_at_a_time() -> None:
    bus, inside, seen = Bus(), threading.Lock(), list[Event]()
    start = threading.Barrier(8, timeout=10)

    def exclusive(event: Event) -> None:
        assert inside.acquire(blocking=False)
        seen.append(event)
        inside.release()

    def emit() -> None:
        start.wait()
        for number in range(50):
            bus.emit(StepProgress("a", str(number)))

    bus.subscribe(exclusive)
    threads = [threading.Thread(target=emit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 400
    assert not any(isinstance(event, Notice) for event in seen)


def test_event_serializes_to_json() -> None:
    data = to_json(StepFinished("kai", "changed", 12.3, "v0.16.8", at=20.0))
    assert json.loads(json.dumps(data)) == {
        "event": "StepFinished",
        "at": 20.0,
        "step": "kai",
        "outcome": "changed",
        "seconds": 12.3,
        "detail": "v0.16.8",
    }
