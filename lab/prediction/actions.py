"""The actions of a scheduling cycle: allocate, consolidation, reclaim, preempt.

Source: pkg/scheduler/actions, KAI 0.16.8, in the order of its default configuration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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


class Cycle:
    """One run of all actions over a session."""

    def __init__(self, session: SchedulingSession, strategy: Mapping[str, str] | None = None) -> None:
        self.session = session
        self.placement = Placement(session, strategy)
        self.outcomes: dict[str, Outcome] = {}

    def run(self, actions: Collection[str] = ACTIONS, only: Collection[str] | None = None) -> dict[str, Outcome]:
        """Run the actions in their order; return job → outcome for those that got something.

        Args:
            actions: names of ACTIONS.
            only: jobs that may evict; None for all pending ones.
        """
        if "allocate" in actions:
            self._allocate()
        for action, attempt in (
            ("consolidation", self._consolidate),
            ("reclaim", self._reclaim),
            ("preempt", self._preempt),
        ):
            if action not in actions:
                continue
            order = JobOrder(self.session, (job for job in self._pending() if only is None or job.id in only))
            while (job := order.pop()) is not None:
                self._attempt(action, job, attempt(job))
        return self.outcomes

    def _pending(self) -> Iterable[Job]:
        session = self.session
        for job in session.jobs.values():
            if session.ready(job) and any(session.place(t).status is Status.PENDING for t in job.tasks):
                yield job

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

    def _attempt(self, action: str, job: Job, search: Search | None) -> None:
        session = self.session
        if search is None:
            return
        before = dict(session.places)
        mark = session.mark()
        if not search.solve():
            session.rollback(mark)
            self.outcomes.setdefault(job.id, Outcome()).tried += search.tried
            return
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

    def _reclaim(self, job: Job) -> Search | None:
        queues, asked = self.session.queues, self._asked(job)
        if not queues.can_reclaim(job.queue, asked, preemptible=job.preemptible):
            return None

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
