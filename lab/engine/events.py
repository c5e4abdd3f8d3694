"""Engine events (immutable) and the event bus. Outputs (board, plain lines, CI groups, JSON lines) subscribe."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Event:
    """Base of all events; ``at`` is seconds since the run started (monotonic)."""

    at: float = field(default=0.0, kw_only=True)

    JSON = "event *"

    @property
    def event(self) -> str:
        """Name of its class."""
        return type(self).__name__


@dataclass(frozen=True)
class RunStarted(Event):
    """A run begins. ``steps`` are (id, title) in plan order; ``verb`` is up or down."""

    lab: str
    verb: str
    steps: tuple[tuple[str, str], ...]
    estimate: float | None = None  # seconds, from earlier runs


@dataclass(frozen=True)
class StepStarted(Event):
    """A step's ``apply`` (or ``undo``) begins."""

    step: str


@dataclass(frozen=True)
class StepProgress(Event):
    """Progress of a step: ``done`` of ``total`` if known."""

    step: str
    text: str
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True)
class StepFinished(Event):
    """A step ended. ``outcome`` is unchanged, changed, failed, cancelled or blocked (a step that it needs failed)."""

    step: str
    outcome: str
    seconds: float
    detail: str = ""


@dataclass(frozen=True)
class Notice(Event):
    """A message for the user; ``level`` is info or warning."""

    level: str
    text: str


@dataclass(frozen=True)
class RunFinished(Event):
    """A run ended. ``changed`` counts the steps that changed something."""

    ok: bool
    seconds: float
    changed: int


Subscriber = Callable[[Event], None]


class Bus:
    """Delivers events to subscribers in order, from any thread. ``clock`` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.RLock()
        self._subscribers: list[Subscriber] = []
        self._clock = clock
        self._zero = clock()

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call ``subscriber`` for every later event. Returns a function that unsubscribes it."""

        def unsubscribe() -> None:
            with self._lock:
                if subscriber in self._subscribers:
                    self._subscribers.remove(subscriber)

        with self._lock:
            self._subscribers.append(subscriber)
        return unsubscribe

    def emit(self, event: Event) -> None:
        """Deliver ``event`` with the seconds since the last RunStarted to all subscribers.

        A subscriber that raises (closed terminal, full disk) is unsubscribed, and the others get a warning: output
        must never stop a run.
        """
        with self._lock:
            if isinstance(event, RunStarted):
                self._zero = self._clock()
            event = replace(event, at=self._clock() - self._zero)
            for subscriber in list(self._subscribers):
                try:
                    subscriber(event)
                except Exception as error:  # noqa: BLE001 - see above
                    self._subscribers.remove(subscriber)
                    name = getattr(subscriber, "__qualname__", type(subscriber).__name__)
                    self.emit(Notice("warning", f"output stopped: {name}: {type(error).__name__}: {error}"))
