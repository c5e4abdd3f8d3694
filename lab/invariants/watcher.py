"""Watches clusters by their invariants: in the thread that calls, or in one of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from types import TracebackType

from lab.invariants.catalogue import ALL
from lab.invariants.evaluator import Evaluator
from lab.invariants.known_defects import with_cause
from lab.invariants.model import Invariant, Violation
from lab.invariants.report import InvariantReport, InvariantResult
from lab.invariants.scope import Scope
from lab.kube.informers import Informers, InformerSource
from lab.tools.background import Background

FIRST_SECONDS = 30.0
"""How long the first lists may take; what has not come by then is not judged until it comes."""

QUIET_SECONDS = 5.0
"""A cluster is quiet when nothing has changed for so long: more than KAI's scheduling cycle (1 s) and its retries."""

IDLE_SECONDS = 0.5

OnViolation = Callable[[Violation], None]


class Watcher:
    """A context manager: follows the clusters from its start to its end.

    Args:
        scopes: what is watched.
        invariants: by which rules.
        tell: called at each violation, in the thread that watches.
        clock: seconds.
        feed: makes what follows the clusters; tests pass a script.
    """

    def __init__(
        self,
        scopes: Iterable[Scope],
        invariants: Iterable[Invariant] = ALL,
        *,
        tell: OnViolation | None = None,
        clock: Callable[[], float] = time.monotonic,
        feed: Callable[[Iterable[InformerSource]], Informers] = Informers,
    ) -> None:
        self._clock = clock
        zero = datetime.now(UTC) - timedelta(seconds=clock())
        rules = tuple(invariants)
        self._judges = {scope.name: Evaluator(scope, zero, rules) for scope in scopes}
        self._feed = feed([source for judge in self._judges.values() for source in judge.sources()])
        self._tell = tell
        self._violations: list[Violation] = []
        self._begun = clock()
        self._background: Background | None = None

    def __enter__(self) -> Watcher:
        self._feed.__enter__()
        self._begun = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._feed.__exit__(kind, error, trace)

    @property
    def violations(self) -> tuple[Violation, ...]:
        """All so far, in their order."""
        return tuple(self._violations)

    @property
    def read(self) -> bool:
        """Whether every cluster has answered on every kind, or has had its time to."""
        return self.seconds > FIRST_SECONDS or all(judge.ledger.read for judge in self._judges.values())

    @property
    def seconds(self) -> float:
        """How long it has been watching."""
        return self._clock() - self._begun

    @property
    def quiet(self) -> bool:
        """Whether nothing has changed for a while, and nothing is wrong that may pass."""
        now = self._clock()
        changed = max(self._begun, *(judge.changed_at for judge in self._judges.values()))
        return self.read and now - changed >= QUIET_SECONDS and not self.waiting()

    def waiting(self, since: float | None = None) -> int:
        """How many breaches stand within their grace; with ``since`` (of the clock) those that stood then."""
        return sum(len(judge.waiting(since)) for judge in self._judges.values())

    def step(self) -> None:
        """Wait for one piece of news, half a second at most, and judge what is to be judged now."""
        wake = min((judge.next_look() for judge in self._judges.values()), default=float("inf"))
        self._take(max(0.0, min(IDLE_SECONDS, wake - self._clock())))
        now = self._clock()
        self._found(v for judge in self._judges.values() if judge.next_look() <= now for v in judge.look(now))

    def run(self, until: Callable[[], bool]) -> None:
        """Watch in this thread until ``until`` holds; it is asked twice a second or more often.

        Raises:
            Interrupted: the run was cancelled.
        """
        while not until():
            self.step()

    def look(self) -> None:
        """Wait until the clusters have been read, and judge all that has come."""
        self.run(lambda: self.read)
        while self._take(0.0):
            pass
        now = self._clock()
        self._found(violation for judge in self._judges.values() for violation in judge.look(now))

    def settle(self, limit: float = float("inf")) -> None:
        """Go on until each breach that stands now has ended or has stood for too long; ``limit`` in seconds."""
        self.look()
        now = self._clock()
        self.run(lambda: not self.waiting(now) or self._clock() - now > limit)

    def start(self) -> None:
        """Watch in a thread of its own until ``stop``."""
        self._background = Background(lambda stopping: self.run(stopping.is_set), "invariants")
        self._background.start()

    def stop(self) -> None:
        if self._background is not None:
            self._background.stop()

    @property
    def trouble(self) -> Exception | None:
        """What ended the thread before its time."""
        return None if self._background is None else self._background.error

    def report(self) -> InvariantReport:
        """What is known of each invariant."""
        results = []
        for name, judge in self._judges.items():
            for invariant in judge.invariants:
                found = tuple(v for v in self._violations if (v.side, v.rule) == (judge.scope.side, invariant.id))
                waiting = tuple(s.breach for s in judge.waiting() if s.invariant is invariant)
                why = "" if judge.judged(invariant) else judge.ledger.why_not(invariant) or "nothing was read"
                if not (name and invariant.tenant_needs):
                    results.append(InvariantResult(invariant, judge.scope.side, found, why, waiting))
        gaps = tuple(gap for judge in self._judges.values() for gap in judge.gaps)
        return InvariantReport(datetime.now(UTC), self.seconds, tuple(results), gaps)

    def _take(self, seconds: float) -> bool:
        """Take one piece of news in; whether there was one."""
        news = self._feed.take(seconds)
        if news is None:
            return False
        scope, _, side = news.source.partition("/")
        self._found(self._judges[scope].hear(side, news, self._clock()))
        return True

    def _found(self, violations: Iterable[Violation]) -> None:
        scopes = {judge.scope.side: judge.scope for judge in self._judges.values()}
        for found in violations:
            violation = with_cause(found, scopes[found.side])
            self._violations.append(violation)
            if self._tell is not None:
                self._tell(violation)
