"""One scheduling cycle: the cluster with every task's place, and changes to it that can be undone.

Source: pkg/scheduler/framework/statement.go (Allocate, Pipeline, Evict, Unevict), KAI 0.16.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from lab.prediction.model import Job, Place, Status, Task, Worker
from lab.prediction.node_use import NodeUse, Occupant
from lab.prediction.queues import ZERO, QueueStates, Vector, add

WAITING = Place(Status.PENDING)
NEW_GROUP = "new-"
"""Begin of the name of a GPU group that does not exist yet."""


class SchedulingSession:
    """The state of a cycle."""

    def __init__(
        self, machines: Iterable[Worker], jobs: Iterable[Job], queues: QueueStates, places: Mapping[str, Place]
    ) -> None:
        self.uses = {machine.name: NodeUse(machine) for machine in sorted(machines, key=lambda one: one.name)}
        self.jobs = {job.id: job for job in jobs}
        self.queues = queues
        self.places: dict[str, Place] = {}
        self.shares: dict[str, Vector] = {}
        """What each placed task counts against its queue."""
        self.refusals: dict[str, str] = {}
        """Job → why its last attempt failed."""
        memories = [u.machine.gpu_memory for u in self.uses.values() if u.machine.gpu_memory > 100]
        self.smallest_gpu = min(memories, default=0)
        self.largest_gpu = max(memories, default=0)
        self._undo: list[Callable[[], None]] = []
        self._groups = 0
        for job in self.jobs.values():
            for task in job.tasks:
                place = places.get(task.id, WAITING)
                if place.node in self.uses:
                    self._enter(task, place)
                    if place.status is Status.RUNNING:
                        self.queues.hold(job.queue, self.shares[task.id], preemptible=job.preemptible)
                self.places[task.id] = place if place.node in self.uses or not place.node else WAITING

    def place(self, task: Task) -> Place:
        return self.places.get(task.id, WAITING)

    def new_group(self) -> str:
        """Return a name for a GPU that begins to be shared."""
        self._groups += 1
        return f"{NEW_GROUP}{self._groups}"

    # What a job wants

    def active(self, job: Job, subgroup: str | None = None) -> list[Task]:
        """Tasks that hold, or are promised, resources."""
        return [t for t in job.tasks if subgroup in (None, t.subgroup) and self.place(t).active]

    def to_allocate(self, job: Job, *, real: bool) -> list[Task]:
        """Return the tasks that one attempt places: what the gang lacks, or a single further task.

        Args:
            job: the job; for an attempt with fewer tasks, a part of it.
            real: only pending tasks, not those that this cycle evicted.
        """
        waiting: dict[str, list[Task]] = {name: [] for name in job.minimum}
        for task in job.tasks:
            place = self.place(task)
            if task.subgroup in waiting and (place.status is Status.PENDING or (not real and place.evicted)):
                waiting[task.subgroup].append(task)
        running = {name: len(self.active(job, name)) for name in job.minimum}
        missing = [name for name, least in job.minimum.items() if running[name] < least]
        if missing:
            return [
                task
                for name in sorted(missing)
                for task in sorted(waiting[name], key=lambda one: one.order)[: job.minimum[name] - running[name]]
            ]
        for name in sorted(waiting, key=lambda one: (running[one] / max(1, job.minimum[one]), one)):
            if waiting[name]:
                return [min(waiting[name], key=lambda one: one.order)]
        return []

    def ready(self, job: Job) -> bool:
        """Whether the job has enough tasks for its gang."""
        return all(
            sum(
                t.subgroup == name and (self.place(t).active or self.place(t).status is Status.PENDING)
                for t in job.tasks
            )
            >= least
            for name, least in job.minimum.items()
        )

    def pending(self) -> list[Job]:
        """Jobs with a pending task."""
        return [job for job in self.jobs.values() if any(self.place(t).status is Status.PENDING for t in job.tasks)]

    def satisfied(self, job: Job) -> bool:
        """Whether the gang is complete."""
        return all(len(self.active(job, name)) >= least for name, least in job.minimum.items())

    def asked(self, tasks: Iterable[Task]) -> Vector:
        """Return what tasks request; gpu-memory as a share of the smallest GPU."""
        return _asked(tasks, self.smallest_gpu)

    def asked_at_least(self, tasks: Iterable[Task]) -> Vector:
        """Return what tasks request; gpu-memory as a share of the largest GPU, as checks of bounds count."""
        return _asked(tasks, self.largest_gpu)

    def held(self, job: Job) -> Vector:
        """Return what the running tasks of a job request."""
        total = ZERO
        for task in job.tasks:
            if self.place(task).status is Status.RUNNING:
                total = add(total, task.vector)
        return total

    # Changes

    def mark(self) -> int:
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        while len(self._undo) > mark:
            self._undo.pop()()

    def allocate(self, task: Task, node: str, groups: tuple[str, ...]) -> None:
        self._hold(task, Place(Status.RUNNING, node, groups))

    def pipeline(self, task: Task, node: str, groups: tuple[str, ...]) -> None:
        """Promise resources to a task; one that was evicted from that node and GPU stays there instead."""
        old = self.uses[node].entries.get((task.id, False, groups))
        if old is not None:
            self._leave(node, old)
            self._hold(task, Place(self.place(task).was or Status.RUNNING, node, groups))
        else:
            self._hold(task, Place(Status.PIPELINED, node, groups))

    def evict(self, task: Task) -> None:
        place = self.place(task)
        job = self.jobs[task.job]
        self._count(job, self.shares[task.id], -1)
        self._leave(place.node, Occupant(task, place.status, place.groups))
        self._set(task, Place(Status.RELEASING, place.node, place.groups, was=place.status))
        self._enter(task, self.place(task))

    def _hold(self, task: Task, place: Place) -> None:
        self._set(task, place)
        self._enter(task, place)
        self._count(self.jobs[task.job], self.shares[task.id], 1)

    def _set(self, task: Task, place: Place) -> None:
        old = self.places.get(task.id, WAITING)
        self.places[task.id] = place
        self._undo.append(lambda: self.places.__setitem__(task.id, old))

    def _enter(self, task: Task, place: Place) -> None:
        use, entry = self.uses[place.node], Occupant(task, place.status, place.groups)
        cpu, memory, _ = task.vector
        old = self.shares.get(task.id, ZERO)
        self.shares[task.id] = cpu, memory, use.share(task)
        use.add(entry)

        def undo() -> None:
            use.remove(entry)
            self.shares[task.id] = old

        self._undo.append(undo)

    def _leave(self, node: str, entry: Occupant) -> None:
        use = self.uses[node]
        kept = use.entries[entry.key]
        use.remove(kept)
        self._undo.append(lambda: use.add(kept))

    def _count(self, job: Job, amounts: Vector, sign: int) -> None:
        self.queues.hold(job.queue, amounts, preemptible=job.preemptible, sign=sign)
        self._undo.append(lambda: self.queues.hold(job.queue, amounts, preemptible=job.preemptible, sign=-sign))


def _asked(tasks: Iterable[Task], gpu: float) -> Vector:
    """What tasks request; gpu-memory as a share of a GPU of this many MiB, or none if no node has one."""
    total = ZERO
    for task in tasks:
        total = add(total, task.vector)
        if task.by_memory and gpu:
            total = add(total, (0.0, 0.0, task.gpu_devices * (task.requests.gpu_memory or 0) / gpu))
    return total
