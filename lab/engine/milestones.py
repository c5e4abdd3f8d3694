"""Milestones, by which a change is measured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Milestone:
    """A timed moment of a removal or an upgrade."""

    name: str
    seconds: float | None
    """Since just before the command; None: not reached."""
    detail: str = ""


class Stopwatch:
    """Notes milestones; the first of each name counts. Thread-safe.

    Args:
        clock: seconds; its first reading is the start.
        order: names in the order of ``milestones``.
    """

    def __init__(self, clock: Callable[[], float], order: Iterable[str]) -> None:
        self._clock, self._start = clock, clock()
        self._order = order
        self._noted: dict[str, Milestone] = {}
        self._lock = threading.Lock()

    def note(self, name: str, detail: str = "", *, reached: bool = True) -> None:
        """A milestone is reached now; or, if not ``reached``, never, for the reason in ``detail``."""
        with self._lock:
            seconds = round(self._clock() - self._start, 3) if reached else None
            self._noted.setdefault(name, Milestone(name, seconds, detail))

    @property
    def milestones(self) -> tuple[Milestone, ...]:
        with self._lock:
            return tuple(self._noted[name] for name in self._order if name in self._noted)
