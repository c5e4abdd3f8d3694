"""The actions of a scheduling cycle: allocate, consolidation, reclaim, preempt.

Source: pkg/scheduler/actions, KAI 0.16.8, in the order of its default configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from lab.kai.names import GPU_RESOURCE
from lab.prediction.model import Job, Status, Task
from lab.prediction.order import JobOrder
from lab.prediction.placement import Placement
from lab.prediction.queues import Vector
from lab.prediction.search import Search, Validator, victim_groups
from lab.prediction.session import SchedulingSession

ACTIONS = ("allocate", "consolidation", "reclaim", "preempt")
MOST_MOVED = 16
"""Jobs that consolidation considers (scheduler flag max-consolidation-preemptees); it picks them at random."""


@dataclass(frozen=True)
class Moved:
    """A task that leaves its place for a job."""

    task: Task
    node: str
    to: str = ""
    """The node on which it starts again; empty if it has no room now."""


@dataclass
class Outcome:
    """What a cycle decided for one job."""

    action: str = ""
    """The action that gave it all tasks of its gang; empty if none did."""
    now: bool = False
    """Its tasks start at once, on idle resources."""
    placed: Mapping[str, str] = field(default_factory=dict)
    """Task → node."""
    moved: tuple[Moved, ...] = ()
    tried: int = 0
    """Scenarios that were simulated for it."""


class FailedJobs:
    """For each set of constraints the smallest job for which an action found no victims.

    Source: pkg/scheduler/actions/common/minimal_job_comparison.go (scheduler flag use-scheduling-signatures).
    """

    def __init__(self, session: SchedulingSession) -> None:
        self._session = session
        self._smallest: dict[tuple[str, ...], list[Vector]] = {}

    def easier(self, job: Job) -> bool:
        """Whether the job may succeed where those failed: it has fewer pods, or a smaller one."""
        known = self._smallest.get(self._constraints(job))
        if known is None:
            return True
        own = self._pending(job)
        if not own or not known:
            return False
        if len(known) > len(own):
            return True
        pairs = zip(own, known, strict=False)
        return any(_fits(mine, other) and not _fits(other, mine) for mine, other in pairs)

    def add(self, job: Job) -> None:
        key, own = self._constraints(job), self._pending(job)
        known = self._smallest.get(key)
        if known is None or (0 < len(own) <= len(known) and all(map(_fits, own, known))):
            self._smallest[key] = own

    def _pending(self, job: Job) -> list[Vector]:
        waiting = (task.vector for task in job.tasks if self._session.place(task).status is Status.PENDING)
        return sorted(waiting, key=lambda vector: vector[::-1])

    def _constraints(self, job: Job) -> tuple[str, ...]:
        return tuple(sorted(task.constraints for task in job.tasks if not self._session.place(task).active))


def _fits(one: Vector, other: Vector) -> bool:
    return all(mine <= theirs for mine, theirs in zip(one, other, strict=True))


class Cycle:
    """One run of all actions over a session."""

    def __init__(self, session: SchedulingSession, strategy: Mapping[str, str] | None = None) -> None:
        self.session = session
        self.placement = Placement(session, strategy)
        self.outcomes: dict[str, Outcome] = {}

    def run(
        self, actions: Collection[str] = ACTIONS, only: Collection[str] | None = None, grown: Collection[str] = ()
    ) -> dict[str, Outcome]:
        """Run the actions in their order; return job → outcome for those that got something.

        Args:
            actions: names of ACTIONS.
            only: jobs that may evict, while others have tried in vain in an earlier cycle; None for all.
            grown: queues whose fair share has grown since that cycle, so that all their jobs may reclaim.
        """
        if "allocate" in actions:
            self._allocate()
        for action, attempt in (
            ("consolidation", self._consolidate),
            ("reclaim", self._reclaim),
            ("preempt", self._preempt),
        ):
            if action in actions:
                self._evicting(action, attempt, only, grown if action == "reclaim" else ())
        return self.outcomes

    def _evicting(
        self, action: str, attempt: Callable[[Job], Search | None], only: Collection[str] | None, grown: Collection[str]
    ) -> None:
        """Let pending jobs evict others, in their order.

        A job is skipped if one of its queue that was not harder to place has failed in this action.
        """
        jobs = [job for job in self._pending() if action != "consolidation" or job.preemptible]
        order, failed = JobOrder(self.session, jobs), dict[str, FailedJobs]()
        left = {job.id for job in jobs if only is None or job.id in only}
        while left and (job := order.pop()) is not None:
            left.discard(job.id)
            if action == "reclaim" and not self._can_reclaim(job):
                continue
            others = failed.setdefault("" if action == "consolidation" else job.queue, FailedJobs(self.session))
            if not others.easier(job):
                continue
            tries = only is None or job.id in only or job.queue in grown
            if not (tries and self._attempt(action, job, attempt(job))):
                others.add(job)

    def _pending(self) -> Iterable[Job]:
        return filter(self.session.ready, self.session.pending())

    def _allocate(self) -> None:
        session = self.session
        order = JobOrder(session, self._pending())
        while (job := order.pop()) is not None:
            mark = session.mark()
            if not self.placement.place_job(job, session.uses, promise=False):
                session.rollback(mark)
                continue
            self._unify(job)
            self._record(job, "allocate", ())
            if any(session.place(task).status is Status.PENDING for task in job.tasks):
                order.push(job)

    def _unify(self, job: Job) -> None:
        """Let a gang of which some tasks must wait, wait as a whole (ConvertAllAllocatedToPipelined)."""
        session = self.session
        waits = any(session.place(task).status is Status.PIPELINED for task in job.tasks)
        self.outcomes.setdefault(job.id, Outcome()).now = not waits

    def _record(self, job: Job, action: str, moved: tuple[Moved, ...], tried: int = 0) -> None:
        session = self.session
        outcome = self.outcomes.setdefault(job.id, Outcome())
        outcome.placed = {t.id: session.place(t).node for t in job.tasks if session.place(t).active}
        outcome.moved = (*outcome.moved, *moved)
        outcome.tried += tried
        if not outcome.action and session.satisfied(job):
            outcome.action = action

    def _attempt(self, action: str, job: Job, search: Search | None) -> bool:
        """Carry out what a search finds; whether it found victims."""
        session = self.session
        if search is None:
            return False
        before = dict(session.places)
        mark = session.mark()
        if not search.solve():
            session.rollback(mark)
            self.outcomes.setdefault(job.id, Outcome()).tried += search.tried
            return False
        own = {task.id for task in job.tasks}
        tasks = {task.id: task for one in session.jobs.values() for task in one.tasks}
        moved = []
        for name, place in session.places.items():
            old = before.get(name)
            if name in own or old is None or old == place or not old.active:
                continue
            if place.status is Status.RELEASING:
                moved.append(Moved(tasks[name], old.node))
            elif place.status is Status.PIPELINED:
                moved.append(Moved(tasks[name], old.node, place.node))
        self.outcomes.setdefault(job.id, Outcome()).now = False
        self._record(job, action, tuple(moved), search.tried)
        return True

    # Which jobs may be evicted, and which solutions hold

    def _search(self, job: Job, victims: Iterable[Job], validate: Validator) -> Search:
        found = tuple(victims)
        return Search(self.session, self.placement, job, lambda: found, validate, self._feasible(job))

    def _feasible(self, job: Job) -> set[str]:
        uses = self.session.uses
        if any(not task.requests.wants_gpu for task in job.tasks):
            return set(uses)
        return {name for name, use in uses.items() if use.free_gpus > 0}

    def _active(self) -> Iterable[Job]:
        return (job for job in self.session.jobs.values() if job.preemptible and self.session.active(job))

    def _asked(self, job: Job) -> Vector:
        return self.session.asked(self.session.to_allocate(job, real=False))

    def _consolidate(self, job: Job) -> Search | None:
        free = sum(use.free_gpus for use in self.session.uses.values() if use.machine.amounts.get(GPU_RESOURCE))
        tasks = self.session.to_allocate(job, real=False)
        if not job.preemptible or free < sum(task.vector[2] for task in tasks):
            return None

        def all_placed(session: SchedulingSession, _: Job, victims: Mapping[str, list[Task]], __: Vector) -> bool:
            return all(session.place(task).active for tasks in victims.values() for task in tasks)

        return self._search(job, (one for one in self._active() if one.id != job.id), all_placed)

    def _can_reclaim(self, job: Job) -> bool:
        return self.session.queues.can_reclaim(job.queue, self._asked(job), preemptible=job.preemptible)

    def _reclaim(self, job: Job) -> Search | None:
        queues, asked = self.session.queues, self._asked(job)

        def holds(session: SchedulingSession, part: Job, victims: Mapping[str, list[Task]], asked: Vector) -> bool:
            lost: dict[str, list[Vector]] = {}
            for name, tasks in victims.items():
                victim = session.jobs[name]
                if groups := victim_groups(session, victim, tasks):
                    lost.setdefault(victim.queue, []).extend(groups)
            return session.queues.reclaimable(part.queue, asked, lost, preemptible=part.preemptible)

        victims = (
            one
            for one in self._active()
            if one.queue != job.queue and one.queue in queues.states and queues.may_lose(job.queue, asked, one.queue)
        )
        return self._search(job, victims, holds)

    def _preempt(self, job: Job) -> Search | None:
        session = self.session
        asked = session.asked_at_least(session.to_allocate(job, real=False))
        if session.queues.bound(job.queue, asked, preemptible=job.preemptible, limits=False):
            return None
        victims = (one for one in self._active() if one.queue == job.queue and one.priority < job.priority)
        return self._search(job, victims, lambda *_: True)
