"""Choosing nodes and GPUs for the tasks of a job.

Source: pkg/scheduler/actions/common/allocate.go, gpu_sharing, and the plugins nodeavailability, gpusharingorder,
gpupack, resourcetype, nodeplacement; KAI 0.16.8.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lab.kai.names import GPU_RESOURCE
from lab.prediction.model import Job, Task
from lab.prediction.node_use import NodeUse, ceil_share
from lab.prediction.session import SchedulingSession

WHOLE = ""
"""Instead of a GPU group: a GPU that is not shared yet."""


class Placement:
    """Places jobs in a session, with the strategy of the scheduler: binpack or spread per resource."""

    def __init__(self, session: SchedulingSession, strategy: Mapping[str, str] | None = None) -> None:
        self.session = session
        self.strategy = {"gpu": "binpack", "cpu": "binpack", **(strategy or {})}

    def place_job(self, job: Job, nodes: Collection[str], *, promise: bool) -> bool:
        """Place the next tasks of a job, all or none.

        Args:
            job: the job, or a part of it.
            nodes: the nodes to choose from.
            promise: only promise resources (pipeline); else use idle ones at once where they suffice.
        """
        session = self.session
        tasks = session.to_allocate(job, real=not promise)
        if not tasks:
            return False
        asked = session.asked_at_least(tasks)
        if bound := session.queues.bound(job.queue, asked, preemptible=job.preemptible):
            session.refusals[job.id] = bound.text
            return False
        mark = session.mark()
        for number, task in enumerate(tasks):
            if not self._place(job, task, nodes, promise=promise):
                session.refusals[job.id] = f"only {number} of {len(tasks)} pods find room" if number else "no room"
                session.rollback(mark)
                return False
        return True

    def _place(self, job: Job, task: Task, nodes: Collection[str], *, promise: bool) -> bool:
        uses = [self.session.uses[name] for name in sorted(nodes)]
        scores = self._scores(task, uses)
        for use in sorted(uses, key=lambda one: (-scores[one.machine.name], one.machine.name)):
            if not use.fits(task, now=False) or not self._allowed(job, task, use):
                continue
            now = not promise and use.fits(task, now=True)
            if not task.shared:
                groups: tuple[str, ...] | None = ()
            else:
                groups, now = self._groups(task, use, now=now)
            if groups is None:
                continue
            if now:
                self.session.allocate(task, use.machine.name, groups)
            else:
                self.session.pipeline(task, use.machine.name, groups)
            return True
        return False

    def _allowed(self, job: Job, task: Task, use: NodeUse) -> bool:
        if task.nodes is not None and use.machine.name not in task.nodes:
            return False
        cpu, memory, _ = task.vector
        gpus = task.gpu_devices * ceil_share(use.machine.share_memory(task), use.machine.gpu_memory)
        return not self.session.queues.bound(job.queue, (cpu, memory, gpus), preemptible=job.preemptible)

    def _groups(self, task: Task, use: NodeUse, *, now: bool) -> tuple[tuple[str, ...] | None, bool]:
        """Return the GPUs for a sharing task, and whether they are available now; None if too few."""
        fitting = [name for name in use.groups if use.fits_group(task, name)]
        spread = 1 if self.strategy["gpu"] == "spread" else -1
        fitting.sort(key=lambda name: (spread * use.groups[name].used, name))
        whole = [WHOLE] * int(use.idle_gpus + use.releasing_gpus)
        ordered = [*whole, *fitting] if spread == 1 else [*fitting, *whole]
        chosen = ordered[: task.gpu_devices]
        if len(chosen) < task.gpu_devices:
            return None, False
        for name in chosen:
            now = now and (name == WHOLE or use.fits_group_now(task, name))
        return tuple(name or self.session.new_group() for name in chosen), now

    def _scores(self, task: Task, uses: list[NodeUse]) -> dict[str, float]:
        only_cpu = not task.requests.wants_gpu
        resource = "cpu" if only_cpu else GPU_RESOURCE
        strategy = self.strategy["cpu" if only_cpu else "gpu"]
        free = {use.machine.name: use.free(resource) for use in uses if use.machine.amounts.get(resource)}
        low, high = min(free.values(), default=0.0), max(free.values(), default=0.0)
        found = {}
        for use in uses:
            name, offered = use.machine.name, use.machine.amounts.get(resource, 0.0)
            score = 0.0
            if offered and strategy == "spread":
                score = free[name] / offered
            elif offered and high:
                score = 9.0 if low == high else 9.0 * (1 - (free[name] - low) / (high - low))
            score += 100 * use.fits(task, now=True)
            score += 1000 * any(use.fits_group(task, group) for group in use.groups)
            score += 10 * (only_cpu and not use.machine.amounts.get(GPU_RESOURCE))
            found[name] = score
        return found
