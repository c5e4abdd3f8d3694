"""The search for victims that make room for a job.

A scenario is a set of tasks to evict. It is tried by evicting them, then placing the job and the victims' jobs in the
queues' order: victims that find room elsewhere, or stay, are not lost. Source:
pkg/scheduler/actions/common/solvers and the plugins nodelocalgreedy and multinodegang, KAI 0.16.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from lab.prediction.model import Job, Status, Task
from lab.prediction.order import JobOrder, to_evict
from lab.prediction.placement import Placement
from lab.prediction.queues import Vector, add
from lab.prediction.session import SchedulingSession

Batch = tuple[Task, ...]
"""Tasks of one job that are evicted together."""


@dataclass
class Scenario:
    """Tasks to evict: those that an earlier, smaller search found, and further ones."""

    recorded: tuple[Batch, ...]
    batches: tuple[Batch, ...] = ()

    @property
    def tasks(self) -> list[Task]:
        return [task for batch in (*self.recorded, *self.batches) for task in batch]


Validator = Callable[[SchedulingSession, Job, Mapping[str, list[Task]], Vector], bool]
"""Judges a solution: session, the part of the job, victims' tasks by job, what the part requests."""


@dataclass
class Search:
    """The search of one action for one job."""

    session: SchedulingSession
    placement: Placement
    job: Job
    victims: Callable[[], Iterable[Job]]
    """The jobs that may be evicted, in any order."""
    validate: Validator
    feasible: set[str]
    tried: int = 0
    """Scenarios that were simulated."""
    most: int = 2000
    """Scenarios after which the search gives up."""
    recorded: tuple[Batch, ...] = field(default=())

    def solve(self) -> bool:
        """Find victims for all tasks of one attempt, and leave the session with the solution."""
        tasks = self.session.to_allocate(self.job, real=False)
        before = len(self.session.active(self.job))
        if not tasks:
            return False
        for generate in (self._node_local, self._multi_node):
            self.recorded = ()
            if not self._largest(tasks, generate):
                continue
            if self._probe(tasks, len(tasks), generate) is not None:
                return self.session.satisfied(self.job) and len(self.session.active(self.job)) > before
        return False

    def _largest(self, tasks: list[Task], generate: Callable[[Job], Iterator[Scenario]]) -> int:
        """Return for how many tasks a solution exists; keeps the victims of the largest one found."""

        def probe(number: int) -> bool:
            mark = self.session.mark()
            found = self._probe(tasks, number, generate)
            self.session.rollback(mark)
            if found is not None:
                self.recorded = found
            return found is not None

        low, number, high = 0, 1, 0
        while True:
            if not probe(number):
                high = number
                break
            low = number
            if number == len(tasks):
                return low
            number = min(2 * number, len(tasks))
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if probe(middle) else (low, middle)
        return low

    def _probe(
        self, tasks: list[Task], number: int, generate: Callable[[Job], Iterator[Scenario]]
    ) -> tuple[Batch, ...] | None:
        """Return the victims with which the first ``number`` tasks fit; None without a solution."""
        part = self.job.minimum_of([*self.session.active(self.job), *tasks[:number]])
        feasible = self.feasible | {self.session.place(task).node for batch in self.recorded for task in batch}
        for scenario in generate(part):
            if self.tried >= self.most:
                return None
            self.tried += 1
            found = self._try(scenario, part, feasible)
            if found is not None:
                return found
        return None

    def _try(self, scenario: Scenario, part: Job, feasible: set[str]) -> tuple[Batch, ...] | None:
        session, tasks = self.session, scenario.tasks
        if not tasks:
            return None
        mark = session.mark()
        asked = session.asked(session.to_allocate(part, real=False))
        before = {queue.name: (queue.allocated, queue.firm) for queue in session.queues.states.values()}
        nodes = {session.place(task).node for task in tasks}
        for task in tasks:
            session.evict(task)
        added = nodes - feasible
        feasible |= added
        if not self._place_all(tasks, part, feasible):
            session.rollback(mark)
            feasible -= added
            return None
        by_job: dict[str, list[Task]] = {}
        for task in tasks:
            by_job.setdefault(task.job, []).append(task)
        if not self._valid(part, by_job, asked, before):
            session.rollback(mark)
            return None
        moved = [t for t in tasks if session.place(t).status in (Status.RELEASING, Status.PIPELINED)]
        return tuple(
            kept
            for batch in (*scenario.recorded, *scenario.batches)
            if (kept := batch if any(task in moved for task in batch) else ())
        )

    def _valid(
        self, part: Job, by_job: Mapping[str, list[Task]], asked: Vector, before: Mapping[str, tuple[Vector, Vector]]
    ) -> bool:
        """Judge the solution by the queues as they were before the evictions."""
        states = self.session.queues.states
        after = {name: (queue.allocated, queue.firm) for name, queue in states.items()}
        for name, (allocated, firm) in before.items():
            states[name].allocated, states[name].firm = allocated, firm
        try:
            return self.validate(self.session, part, by_job, asked)
        finally:
            for name, (allocated, firm) in after.items():
                states[name].allocated, states[name].firm = allocated, firm

    def _place_all(self, tasks: list[Task], part: Job, nodes: set[str]) -> bool:
        """Place the part and the victims' jobs; false if the part finds no room.

        Other pending jobs are not placed, but count for the order: a queue is compared by its first job
        (GetJobsToAllocate in pkg/scheduler/actions/common/action.go).
        """
        own = {task.job: self.session.jobs[task.job] for task in tasks} | {part.id: part}
        order = JobOrder(self.session, {**{job.id: job for job in self.session.pending()}, **own}.values())
        left, placed = set(own), False
        while left and (job := order.pop()) is not None:
            if job.id not in left:
                continue
            left.discard(job.id)
            done = self.placement.place_job(job, nodes, promise=True)
            if job.id == part.id:
                if not done:
                    return False
                placed = True
        return placed

    # Scenarios

    def _accumulated(self, part: Job) -> Iterator[list[Batch]]:
        """Yield ever more batches of victims, in the victims' order."""
        session = self.session
        order = JobOrder(session, (job for job in self.victims() if session.active(job)), victims=True)
        recorded = {task.id for batch in self.recorded for task in batch}
        batches: list[Batch] = []
        while (job := order.pop()) is not None:
            if job.id == part.id:
                continue
            tasks = to_evict(session, job)
            if not tasks:  # the rest of a job, of which no task runs
                continue
            ids = {task.id for task in tasks}
            if ids & recorded:
                rest = [task for task in job.tasks if task.id not in recorded]
                if rest:
                    order.push(replace(job, tasks=tuple(rest)))
                continue
            if len(tasks) < len(session.active(job)):
                order.push(replace(job, tasks=tuple(task for task in job.tasks if task.id not in ids)))
            batches.append(tuple(tasks))
            yield batches

    def _node_local(self, part: Job) -> Iterator[Scenario]:
        """Yield the victims on one node at a time."""
        if self.recorded:
            yield Scenario(self.recorded)
        for batches in self._accumulated(part):
            session, seen = self.session, set()
            for node in sorted({session.place(t).node for t in session.jobs[batches[-1][0].job].tasks} - {""}):
                jobs = {task.job for batch in batches for task in batch if session.place(task).node == node}
                kept = [batch for batch in batches if batch[0].job in jobs]
                key = frozenset(task.id for batch in kept for task in batch)
                if key and key not in seen:
                    seen.add(key)
                    yield Scenario(self.recorded, tuple(_by_job(kept)))

    def _multi_node(self, part: Job) -> Iterator[Scenario]:
        """Yield the victims on the fewest, smallest nodes that could suffice, then on more nodes."""
        if self.recorded:
            yield Scenario(self.recorded)
        demand = [_gpus(task) for task in self.session.to_allocate(part, real=False)]
        for batches in self._accumulated(part):
            yield from self._growing(list(batches), sum(demand), min(demand, default=0.0))

    def _growing(self, batches: list[Batch], demand: float, smallest: float) -> Iterator[Scenario]:
        session = self.session
        freed: dict[str, float] = {}
        for batch in self.recorded:
            for task in batch:
                node = session.place(task).node
                freed[node] = freed.get(node, 0.0) + session.shares[task.id][2]
        first: dict[str, int] = {}
        on: dict[str, list[int]] = {}
        capacity: dict[str, float] = {}
        for number, batch in enumerate(batches):
            for task in batch:
                node = session.place(task).node
                if node not in first:
                    first[node] = len(first)
                    capacity[node] = freed.get(node, 0.0) + session.uses[node].free_gpus
                capacity[node] += session.shares[task.id][2]
                if number not in on.setdefault(node, []):
                    on[node].append(number)
        nodes = [node for node in on if not smallest > 0 or capacity[node] >= smallest]
        nodes.sort(key=lambda node: (capacity[node], first[node]))
        base = sum(session.uses[n].free_gpus + freed.get(n, 0.0) for n in self.feasible if n not in on)
        missing, wanted, covered = max(0.0, demand - base), 0, 0.0
        while missing > 0 and covered < missing:
            if wanted == len(nodes):
                return
            covered += capacity[nodes[wanted]]
            wanted += 1
        step = 1
        while True:
            chosen = {number for node in nodes[:wanted] for number in on[node]}
            yield Scenario(self.recorded, tuple(batches[number] for number in sorted(chosen)))
            if wanted >= len(nodes):
                return
            wanted, step = min(wanted + step, len(nodes)), step * 2


def _by_job(batches: Iterable[Batch]) -> list[Batch]:
    found: dict[str, Batch] = {}
    for batch in batches:
        found[batch[0].job] = (*found.get(batch[0].job, ()), *batch)
    return list(found.values())


def _gpus(task: Task) -> float:
    return task.vector[2]


def victim_groups(session: SchedulingSession, job: Job, tasks: list[Task]) -> list[Vector]:
    """Return what a victim loses, as reclaim counts: its gang as one, every further task by itself.

    Tasks that found another place do not count (scheduler flag allow-consolidating-reclaim, on by default).
    """
    lost: list[Vector] = []
    core: Vector | None = None
    for name, least in job.minimum.items():
        own = [task for task in tasks if task.subgroup == name]
        for number, task in enumerate(own):
            if session.place(task).active:
                continue
            amounts = task.vector[0], task.vector[1], session.shares[task.id][2]
            if number >= least and least < len(own):
                lost.append(amounts)
            else:
                core = amounts if core is None else add(core, amounts)
    return [*lost, *([core] if core is not None else [])]
