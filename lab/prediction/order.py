"""The order in which jobs are served, and in which victims are considered.

Source: pkg/scheduler/actions/utils/job_order_by_queue.go and the plugins priority, elastic, proportion; KAI 0.16.8.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterable

from lab.prediction.model import Job, Task
from lab.prediction.queues import ZERO, Vector, add
from lab.prediction.session import SchedulingSession

_Key = tuple[int, int, str, str]


class JobOrder:
    """Jobs by queue: ``pop`` returns the next, judged by the session as it is then."""

    def __init__(self, session: SchedulingSession, jobs: Iterable[Job] = (), *, victims: bool = False) -> None:
        self.session = session
        self.victims = victims
        self.waiting: dict[str, list[tuple[_Key, Job]]] = {}
        """Queue → jobs in their order, as it is when they are pushed."""
        self.popped: dict[str, Vector] = {}
        for job in jobs:
            self.push(job)

    def push(self, job: Job) -> None:
        queue = self.session.queues.states.get(job.queue)
        if queue is not None and queue.leaf:
            bisect.insort(self.waiting.setdefault(job.queue, []), (self._key(job), job), key=lambda row: row[0])

    def pop(self) -> Job | None:
        """Return the next job; None if no more is left."""
        if not self.waiting:
            return None
        leaf, job, _ = self._best("")
        del self.waiting[leaf][-1 if self.victims else 0]
        if not self.waiting[leaf]:
            del self.waiting[leaf]
        if self.victims:
            self.popped[leaf] = add(self.popped.get(leaf, ZERO), self.session.held(job))
        return job

    def _best(self, parent: str) -> tuple[str, Job, tuple[Vector, Vector]]:
        """Return the leaf queue below a queue that is next, its next job and the change that it would make."""
        states = self.session.queues.states
        found: dict[str, tuple[str, Job, tuple[Vector, Vector]]] = {}
        for name in self._below(parent):
            found[name] = self._head(name) if states[name].leaf else self._best(name)

        def compare(one: str, other: str) -> int:
            result = self.session.queues.compare(one, other, found[one][2], found[other][2])
            return -result if self.victims else result

        return found[min(found, key=functools.cmp_to_key(compare))]

    def _below(self, parent: str) -> list[str]:
        """Return the children of a queue that have waiting jobs below them."""
        names = []
        for leaf in self.waiting:
            path = [queue.name for queue in self.session.queues.path(leaf)]
            if parent == "" or parent in path:
                at = path.index(parent) if parent else len(path)
                if path[at - 1] not in names:
                    names.append(path[at - 1])
        return names

    def _head(self, leaf: str) -> tuple[str, Job, tuple[Vector, Vector]]:
        _, job = self.waiting[leaf][-1 if self.victims else 0]
        if self.victims:
            return leaf, job, (ZERO, add(self.popped.get(leaf, ZERO), self.session.held(job)))
        return leaf, job, (self.session.asked(self.session.to_allocate(job, real=False)), ZERO)

    def _key(self, job: Job) -> _Key:
        """Sort by priority, then jobs below, at and above their minimum, then by age."""
        return -job.priority, _elastic(self.session, job), *job.order


def _elastic(session: SchedulingSession, job: Job) -> int:
    running = {name: len(session.active(job, name)) for name in job.minimum}
    if any(running[name] < least for name, least in job.minimum.items()):
        return 0
    return 2 if any(running[name] > least for name, least in job.minimum.items()) else 1


def to_evict(session: SchedulingSession, job: Job) -> list[Task]:
    """Return the tasks that one step of eviction removes: one beyond the minimum, else all of the gang."""
    running = {name: session.active(job, name) for name in job.minimum}
    surplus = [name for name, least in job.minimum.items() if len(running[name]) > least]
    if surplus:
        name = max(surplus, key=lambda one: (len(running[one]) / max(1, job.minimum[one]), one))
        return [max(running[name], key=lambda task: task.order)]
    tasks = [task for name in sorted(running) for task in running[name]]
    return sorted(tasks, key=lambda task: task.order, reverse=True)
