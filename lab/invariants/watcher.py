"""Watch clusters and evaluate their invariants, in the calling thread or in a background thread."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from lab.invariants.catalogue import ALL
from lab.invariants.evaluator import Evaluator
from lab.invariants.known_defects import PROOF_SECONDS, awaits_proof, with_cause, with_consequences
from lab.invariants.model import Invariant, Violation
from lab.invariants.report import InvariantReport, InvariantResult
from lab.invariants.scope import Scope
from lab.kube.informers import Informers, InformerSource
from lab.tools.background import Background

FIRST_SECONDS = 30.0
"""Limit for the first lists; a kind that is listed later is evaluated from then on."""

QUIET_SECONDS = 5.0
"""Seconds without a change after which a cluster is quiet: more than KAI's scheduling cycle (1 s) and its retries."""

IDLE_SECONDS = 0.5


class Watcher:
    """A context manager that watches clusters.

    ``on_violation`` is called with each violation, in the watching thread, at most ``PROOF_SECONDS`` late. ``keep`` is
    the number of violations that are kept, the newest; None keeps all. ``informers`` watches the clusters; tests pass a
    script.
    """

    def __init__(
        self,
        scopes: Iterable[Scope],
        invariants: Iterable[Invariant] = ALL,
        *,
        on_violation: Callable[[Violation], None] = lambda _: None,
        keep: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        informers: Callable[[Iterable[InformerSource]], Informers] = Informers,
    ) -> None:
        self._clock = clock
        zero = datetime.now(UTC) - timedelta(seconds=clock())
        rules = tuple(invariants)
        self.evaluators = {scope.name: Evaluator(scope, zero, rules) for scope in scopes}
        self._informers = informers([source for one in self.evaluators.values() for source in one.sources()])
        self._on_violation = on_violation
        self._violations: deque[Violation] = deque(maxlen=keep)
        self._lasting: dict[tuple[str, str, str], Violation] = {}
        self._unproven: deque[tuple[float, Evaluator, Violation]] = deque()
        self._begun = clock()
        self._background: Background | None = None

    def __enter__(self) -> Watcher:
        self._informers.__enter__()
        self._begun = self._clock()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        self._informers.__exit__(*error)

    @property
    def violations(self) -> tuple[Violation, ...]:
        """All violations so far, in order."""
        return tuple(self._violations)

    @property
    def lasting(self) -> tuple[Violation, ...]:
        """The violations that still last, oldest first."""
        now = {(name, *key) for name, one in self.evaluators.items() for key in one.tracker.violated()}
        self._lasting = {key: violation for key, violation in self._lasting.items() if key in now}
        return tuple(self._lasting.values())

    @property
    def synced(self) -> bool:
        """Whether every cluster has answered for every kind, or the limit for that has passed."""
        return self.seconds > FIRST_SECONDS or all(one.synced for one in self.evaluators.values())

    @property
    def seconds(self) -> float:
        """Duration of the watch so far."""
        return self._clock() - self._begun

    @property
    def quiet(self) -> bool:
        """Whether nothing has changed for a while, and no breach is within its grace period."""
        now = self._clock()
        changed = max(self._begun, *(one.changed_at for one in self.evaluators.values()))
        return self.synced and now - changed >= QUIET_SECONDS and not self.waiting()

    def waiting(self, since: float | None = None) -> int:
        """The number of breaches within their grace period, and of violations whose cause may still be logged.

        With ``since`` (of the clock) only breaches older than it.
        """
        return len(self._unproven) + sum(len(one.tracker.waiting(since)) for one in self.evaluators.values())

    def step(self) -> None:
        """Handle one event, waiting for it at most half a second, and evaluate the rules that are due."""
        wake = min((one.next_look() for one in self.evaluators.values()), default=float("inf"))
        self._take(max(0.0, min(IDLE_SECONDS, wake - self._clock())))
        now = self._clock()
        for one in self.evaluators.values():
            if one.next_look() <= now:
                self._record(one, one.look(now))
        while self._unproven and self._unproven[0][0] <= now:
            _, evaluator, violation = self._unproven.popleft()
            self._keep(evaluator, with_cause(violation, evaluator.scope))

    def run(self, until: Callable[[], bool]) -> None:
        """Watch in this thread until ``until`` holds; it is called at least twice a second. Raises Interrupted."""
        while not until():
            self.step()

    def look(self) -> None:
        """Wait until the clusters have been read, handle all queued events, and evaluate all rules."""
        self.run(lambda: self.synced)
        while self._take(0.0):
            pass
        now = self._clock()
        for one in self.evaluators.values():
            self._record(one, one.look(now))

    def settle(self, limit: float = float("inf")) -> None:
        """Watch until each current breach has ended or exceeded its grace period, at most ``limit`` seconds."""
        self.look()
        now = self._clock()
        self.run(lambda: not self.waiting(now) or self._clock() - now > limit)

    def start(self) -> None:
        """Watch in a background thread until ``stop``."""
        self._background = Background(lambda stopping: self.run(stopping.is_set), "invariants")
        self._background.start()

    def stop(self) -> None:
        if self._background is not None:
            self._background.stop()

    @property
    def trouble(self) -> Exception | None:
        """The exception that ended the background thread."""
        return None if self._background is None else self._background.error

    def report(self) -> InvariantReport:
        """The results so far."""
        results = []
        found = with_consequences(self._violations)
        for name, one in self.evaluators.items():
            side = one.scope.side
            for invariant in one.invariants:
                if name and invariant.tenant_needs:
                    continue
                violations = tuple(v for v in found if (v.side, v.rule) == (side, invariant.id))
                waiting = tuple(p.breach for p in one.tracker.waiting() if p.invariant is invariant)
                results.append(InvariantResult(invariant, side, violations, one.not_evaluated(invariant), waiting))
        gaps = tuple(gap for one in self.evaluators.values() for gap in one.gaps)
        return InvariantReport(datetime.now(UTC), round(self.seconds, 3), tuple(results), gaps)

    def _take(self, seconds: float) -> bool:
        """Handle one event; whether there was one."""
        event = self._informers.take(seconds)
        if event is None:
            return False
        scope, _, tenant = event.source.partition("/")
        one = self.evaluators[scope]
        self._record(one, one.handle(tenant, event, self._clock()))
        return True

    def _record(self, evaluator: Evaluator, violations: Iterable[Violation]) -> None:
        for violation in violations:
            found = with_cause(violation, evaluator.scope)
            if awaits_proof(found, evaluator.scope):
                self._unproven.append((self._clock() + PROOF_SECONDS, evaluator, found))
            else:
                self._keep(evaluator, found)

    def _keep(self, evaluator: Evaluator, violation: Violation) -> None:
        self._violations.append(violation)
        self._lasting[evaluator.scope.name, violation.rule, violation.subject] = violation
        self._on_violation(violation)
