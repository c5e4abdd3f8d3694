"""Runs steps: observe → apply → verify, in parallel as their needs allow; undo one by one in reverse order.

A failed step blocks the steps that need it; independent steps finish, so that the next run has less to do. A
cancelled run (Ctrl-C, SIGTERM) starts no more steps and waits for the running ones, whose commands the same token
ends.
"""

from __future__ import annotations

import contextlib
import graphlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Generic, TypeVar

from lab.engine.events import Bus, RunFinished, RunStarted, StepFinished, StepStarted
from lab.engine.step import Observed, State, Step
from lab.errors import Interrupted, LabError, StepFailed

C = TypeVar("C")


@dataclass(frozen=True)
class StepRecord:
    """Outcome of one step, as in StepFinished; ``began`` is in seconds since the start of the run."""

    step: str
    outcome: str
    seconds: float
    detail: str = ""
    began: float = 0.0

    JSON = "step outcome seconds"


@dataclass
class RunRecord:
    """Outcome of a run; ``steps`` are in the order in which they ended."""

    verb: str
    steps: list[StepRecord] = field(default_factory=list)
    errors: list[tuple[str, BaseException]] = field(default_factory=list)
    seconds: float = 0.0
    cancelled: bool = False
    left: list[str] = field(default_factory=list)  # objects that ``down`` did not remove, one line each

    @property
    def ok(self) -> bool:
        return not self.errors and not self.cancelled

    @property
    def changed(self) -> int:
        return sum(record.outcome == "changed" for record in self.steps)

    def raise_failure(self) -> None:
        """Raise Interrupted if the run was cancelled, or StepFailed with the first error and one line per other."""
        if self.cancelled:
            raise Interrupted(
                f"kailab {self.verb} was interrupted; finished steps are kept",
                evidence=[f"{step}: had already failed: {_first_line(error)}" for step, error in self.errors],
                fix="re-run the same command to continue, or 'kailab down' to remove everything",
            )
        if not self.errors:
            return
        step, error = self.errors[0]
        also = [f"{other}: also failed: {_first_line(err)}" for other, err in self.errors[1:]]
        if isinstance(error, LabError):
            failure = StepFailed(
                f"{step}: {error.what}", command=error.command, evidence=(*error.evidence, *also), fix=error.fix
            )
            failure.exit_code = error.exit_code if error.exit_code != 1 else StepFailed.exit_code
        else:
            failure = StepFailed(f"{step}: {type(error).__name__}: {error}", evidence=also)
        raise failure from error


@dataclass
class Engine(Generic[C]):
    """Runs ``steps``, which are in plan order; ``scope`` makes the context of a step from its id.

    Set ``cancel`` to stop a run. ``clock`` returns monotonic seconds; ``lab`` is the lab's name, for the events. With
    ``partial``, the running lab already meets needs that are not steps of this run. Raises LabError if two steps have
    the same id, or needs are unknown or circular.
    """

    steps: Sequence[Step[C]]
    scope: Callable[[str], C]
    _: KW_ONLY
    bus: Bus
    cancel: threading.Event
    workers: int = 6
    clock: Callable[[], float] = time.monotonic
    lab: str = ""
    partial: bool = False

    def __post_init__(self) -> None:
        known: set[str] = set()
        for step in self.steps:
            if step.id in known:
                raise LabError(f"two steps have the id {step.id}")
            known.add(step.id)
        for step in self.steps:
            if (unknown := [need for need in step.needs if need not in known]) and not self.partial:
                raise LabError(f"step {step.id} needs unknown steps: {', '.join(unknown)}")
        self.needs = {step.id: tuple(need for need in step.needs if need in known) for step in self.steps}
        self._order = _ordered(self.needs)

    def observe(self, gate: str = "", *, stop: bool = False) -> dict[str, Observed]:
        """Observe all steps in parallel; one that needs an absent step is absent.

        Args:
            gate: the step that all those wait for that need it, directly or not; no other step waits. Without a gate
                each step waits for what it needs.
            stop: observe nothing behind a gate that is not READY; it counts as drifted.

        Raises:
            Interrupted, StepFailed.
        """
        seen: dict[str, Observed] = {}
        failures: dict[str, Exception] = {}
        needs = self.needs
        if gate:
            needs = {step_id: (gate,) if self._needs(step_id, gate) else () for step_id in self._order}

        def look(step: Step[C]) -> str:
            if any(need in failures for need in needs[step.id]):
                return "unchanged"
            before = [seen[need].state for need in needs[step.id]]
            if State.ABSENT in before:
                seen[step.id] = Observed.absent()
            elif stop and gate in needs[step.id] and State.DRIFTED in before:
                seen[step.id] = Observed.drifted("not observed")
            else:
                try:
                    seen[step.id] = step.observe(self.scope(step.id))
                except Interrupted:
                    raise
                except Exception as error:  # noqa: BLE001 - what the step needs decides whether it counts
                    failures[step.id] = error
            return "unchanged"

        record = self._walk("observe", look, needs, quiet=True)
        for step_id in self._order if not record.cancelled else ():
            states = [seen[need].state for need in self.needs[step_id]]
            error = failures.get(step_id)
            if State.ABSENT in states:
                seen[step_id] = Observed.absent()
            elif error is not None:
                if State.DRIFTED not in states or not isinstance(error, LabError):
                    record.errors.append((step_id, error))
                # a step that it needs already reports the cause, such as stopped nodes
                seen[step_id] = Observed.drifted(f"cannot be observed: {_first_line(error)}")
            else:
                seen.setdefault(step_id, Observed.drifted("not observed"))
        record.raise_failure()
        return seen

    def _needs(self, step_id: str, gate: str) -> bool:
        """Whether a step needs ``gate``, directly or not."""
        return any(need == gate or self._needs(need, gate) for need in self.needs[step_id])

    def up(
        self,
        estimate: float | None = None,
        verb: str = "up",
        seen: Mapping[str, Observed] = MappingProxyType({}),
        since: float | None = None,
    ) -> RunRecord:
        """Bring every step to READY.

        Args:
            estimate: seconds that it may take, for the events.
            verb: the command, for the record.
            seen: what ``observe`` returned just before: a READY step is not observed again, unless one was applied.
            since: when the command began to observe, of ``clock``; None: now.
        """
        applied = threading.Event()

        def bring(step: Step[C]) -> str:
            ctx = self.scope(step.id)
            known = None if applied.is_set() else seen.get(step.id)
            found = known if known is not None and known.state is State.READY else step.observe(ctx)
            if found.state is State.READY:
                return f"unchanged {found.detail}"
            if self.cancel.is_set():
                raise Interrupted("not applied")
            applied.set()
            self.bus.emit(StepStarted(step.id))
            step.apply(ctx)
            step.verify(ctx)
            return f"changed {found.detail}"

        return self._walk(verb, bring, self.needs, estimate=estimate, since=since)

    def down(self, verb: str = "down", *, past_failures: bool = True) -> RunRecord:
        """Undo the steps one after the other in reverse order, then list what remains.

        Steps that are ``part_of`` another step of this run are removed with it. With ``past_failures`` a failed step
        does not block the later ones.
        """
        by_id = {step.id: step for step in self.steps if step.part_of not in self.needs}
        order = [step_id for step_id in reversed(self._order) if step_id in by_id]
        self.steps = [by_id[step_id] for step_id in order]
        before = {step_id: tuple(order[max(0, number - 1) : number]) for number, step_id in enumerate(order)}

        def remove(step: Step[C]) -> str:
            self.bus.emit(StepStarted(step.id))
            step.undo(self.scope(step.id))
            return "changed"

        record = self._walk(verb, remove, before, past_failures=past_failures)
        if not record.cancelled:
            record.left = [line for step in self.steps for line in step.remains(self.scope(step.id))]
        return record

    def _walk(
        self,
        verb: str,
        act: Callable[[Step[C]], str],
        needs: dict[str, tuple[str, ...]],
        *,
        quiet: bool = False,
        past_failures: bool = False,
        estimate: float | None = None,
        since: float | None = None,
    ) -> RunRecord:
        record = RunRecord(verb)
        started = self.clock() if since is None else since
        if not quiet:
            names = tuple((step.id, step.title) for step in self.steps)
            self.bus.emit(RunStarted(self.lab, verb, names, estimate))
        todo = {step.id: step for step in self.steps}
        done: set[str] = set()
        bad: set[str] = set()
        began: dict[str, float] = {}
        running: dict[Future[str], str] = {}

        def finish(step: str, outcome: str, detail: str = "") -> None:
            start = began.get(step, self.clock())
            seconds = round(self.clock() - start, 3)
            record.steps.append(StepRecord(step, outcome, seconds, detail, start - started))
            if not quiet:
                self.bus.emit(StepFinished(step, outcome, seconds, detail))

        with ThreadPoolExecutor(self.workers, thread_name_prefix="step") as pool, self._cancel_on_error():
            while todo or running:
                for step_id in list(todo):
                    # no more than workers: a step that waits in the pool would still start after a cancel
                    if self.cancel.is_set() or len(running) >= self.workers:
                        break
                    if not past_failures and any(need in bad for need in needs[step_id]):
                        del todo[step_id]
                        bad.add(step_id)
                        finish(step_id, "blocked", "a step it needs failed")
                    elif all(need in done or need in bad for need in needs[step_id]):
                        began[step_id] = self.clock()
                        running[pool.submit(act, todo.pop(step_id))] = step_id
                if not running:
                    if self.cancel.is_set() or not todo:
                        break
                    continue
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    step_id = running.pop(future)
                    try:
                        outcome, _, detail = future.result().partition(" ")
                    except BaseException as error:  # noqa: BLE001 - every failure of a step becomes part of the record
                        bad.add(step_id)
                        stopped = self.cancel.is_set() or isinstance(error, Interrupted)
                        if stopped:
                            self.cancel.set()
                        else:
                            record.errors.append((step_id, error))
                        finish(step_id, "cancelled" if stopped else "failed", _first_line(error))
                    else:
                        done.add(step_id)
                        finish(step_id, outcome, detail)
        # a cancel after the last step stopped nothing
        record.cancelled = self.cancel.is_set() and (bool(todo) or any(s.outcome == "cancelled" for s in record.steps))
        record.seconds = round(self.clock() - started, 3)
        if not quiet:
            self.bus.emit(RunFinished(record.ok, record.seconds, record.changed))
        return record

    @contextlib.contextmanager
    def _cancel_on_error(self) -> Iterator[None]:
        """If the loop raises, cancel the running steps before the pool waits for them."""
        try:
            yield
        except BaseException:
            self.cancel.set()
            raise


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _ordered(needs: dict[str, tuple[str, ...]]) -> list[str]:
    """Ids in plan order, but each after its needs. Raises LabError if needs are circular."""
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        raise LabError(f"circular step needs: {' → '.join(error.args[1])}") from error
    order: list[str] = []
    while len(order) < len(needs):
        order.append(next(id_ for id_ in needs if id_ not in order and all(need in order for need in needs[id_])))
    return order
