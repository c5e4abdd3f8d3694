"""What the tasks on one node use, release and will use: whole GPUs, shared GPUs and other resources.

Source: pkg/scheduler/api/node_info (node_info.go, gpu_sharing_node_info.go), KAI 0.16.8.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from lab.kai.names import GPU_RESOURCE
from lab.prediction.model import Status, Task, Worker


class Occupant(NamedTuple):
    """A task on the node in one role; a moved task has two, on its former and on its future GPU."""

    task: Task
    status: Status
    groups: tuple[str, ...]

    @property
    def key(self) -> tuple[str, bool, tuple[str, ...]]:
        return self.task.id, self.status is Status.PIPELINED, self.groups


class Group(NamedTuple):
    """MiB of one shared GPU."""

    used: int
    """By all its tasks."""
    allocated: int
    """By tasks that hold it now."""
    releasing: int
    """Leaving, less what will come."""


class NodeUse:
    """The changing use of a machine."""

    def __init__(self, machine: Worker) -> None:
        self.machine = machine
        self.idle: dict[str, float] = dict(machine.amounts)
        self.releasing: dict[str, float] = {}
        self.entries: dict[tuple[str, bool, tuple[str, ...]], Occupant] = {}
        """By task, whether it is to come, and its GPU groups."""
        self._groups: dict[str, Group] | None = None

    def add(self, entry: Occupant) -> None:
        self.entries[entry.key] = entry
        self._count(entry, 1)

    def remove(self, entry: Occupant) -> None:
        del self.entries[entry.key]
        self._count(entry, -1)

    def _count(self, entry: Occupant, sign: int) -> None:
        self._groups = None
        for name, amount in wanted(entry.task).items():
            if entry.status is not Status.PIPELINED:
                self.idle[name] = self.idle.get(name, 0.0) - sign * amount
            if entry.status is Status.RELEASING:
                self.releasing[name] = self.releasing.get(name, 0.0) + sign * amount
            elif entry.status is Status.PIPELINED:
                self.releasing[name] = self.releasing.get(name, 0.0) - sign * amount

    @property
    def groups(self) -> dict[str, Group]:
        """GPU group → its memory."""
        if self._groups is None:
            found: dict[str, Group] = {}
            for entry in self.entries.values():
                mib = self.machine.share_memory(entry.task) if entry.groups else 0
                sign = {Status.RELEASING: 1, Status.PIPELINED: -1}.get(entry.status, 0)
                held = 0 if entry.status is Status.PIPELINED else mib
                for name in entry.groups:
                    old = found.get(name, Group(0, 0, 0))
                    found[name] = Group(old.used + mib, old.allocated + held, old.releasing + sign * mib)
            self._groups = found
        return self._groups

    @property
    def idle_gpus(self) -> float:
        """Whole GPUs that nobody holds."""
        held = sum(group.allocated > 0 for group in self.groups.values())
        return self.idle.get(GPU_RESOURCE, 0.0) - held

    @property
    def releasing_gpus(self) -> float:
        """Whole GPUs that become free, less those that are promised."""
        shared = 0
        for group in self.groups.values():
            if group.allocated == 0 and group.used:
                shared -= 1  # promised whole to tasks that will share it
            elif group.allocated and group.used == group.allocated == group.releasing:
                shared += 1
        return self.releasing.get(GPU_RESOURCE, 0.0) + shared

    @property
    def free_gpus(self) -> float:
        """GPUs idle or becoming free, with free parts of shared ones."""
        memory = self.machine.gpu_memory
        parts = sum(1 - ceil_share(g.allocated, memory) for g in self.groups.values() if g.allocated > 0)
        leaving = sum(
            ceil_share(g.releasing, memory) for g in self.groups.values() if g.releasing > 0 and g.releasing != g.used
        )
        return self.idle_gpus + parts + self.releasing_gpus + leaving

    def free(self, resource: str) -> float:
        """Idle or becoming free."""
        if resource == GPU_RESOURCE:
            return self.idle_gpus + self.releasing_gpus
        return self.idle.get(resource, 0.0) + self.releasing.get(resource, 0.0)

    def fits_group(self, task: Task, name: str) -> bool:
        """Whether a shared GPU has room for the task, now or once tasks have left."""
        group = self.groups[name]
        room = self.machine.gpu_memory - group.allocated + group.releasing - self.machine.share_memory(task)
        return group.used != 0 and room >= 0 and group.allocated != group.releasing

    def fits_group_now(self, task: Task, name: str) -> bool:
        group = self.groups[name]
        room = self.machine.gpu_memory - group.allocated - self.machine.share_memory(task)
        return group.allocated > 0 and room >= 0

    def fits(self, task: Task, *, now: bool) -> bool:
        """Whether the resources suffice, ``now`` or once tasks have left."""
        for name, amount in wanted(task).items():
            have = self.idle.get(name, 0.0) + (0.0 if now else self.releasing.get(name, 0.0))
            if name == GPU_RESOURCE:
                have = self.idle_gpus + (0.0 if now else self.releasing_gpus)
            if amount > have:
                return False
        if not task.shared:
            return True
        if self.machine.share_memory(task) > self.machine.gpu_memory:
            return False
        whole = math.floor(self.idle_gpus + (0.0 if now else self.releasing_gpus))
        return whole + sum(self.fits_group(task, name) for name in self.groups) >= task.gpu_devices

    def share(self, task: Task) -> float:
        """GPUs that the task counts against its queue on this node."""
        if not task.by_memory:
            return task.vector[2]
        return round(ceil_share(self.machine.share_memory(task), self.machine.gpu_memory) * task.gpu_devices, 9)


def wanted(task: Task) -> dict[str, float]:
    """Resource → amount that a task takes of a node, without shares of GPUs."""
    requests = task.requests
    found = {"cpu": requests.cpu, "memory": requests.memory, "pods": 1.0, **requests.others, **requests.mig}
    if requests.gpus and not task.shared:
        found[GPU_RESOURCE] = float(requests.gpus)
    return {name: amount for name, amount in found.items() if amount}


def ceil_share(mib: int, memory: int) -> float:
    """MiB as a part of a GPU, rounded up to hundredths."""
    return math.ceil(mib / memory * 100) / 100
