"""The objects of a scheduling cycle: pods as tasks, workloads as jobs, nodes, and where each task is.

Names and rules follow KAI 0.16.8: pkg/scheduler/api (pod_info, podgroup_info, node_info).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from lab.objects.pod_requests import PodRequests

NON_PREEMPTIBLE = 100
"""Priority from which on a job is not preemptible unless it says otherwise (podgroup's Preemptibility)."""


class Status(enum.Enum):
    """A task's state in the cycle."""

    PENDING = "pending"
    RUNNING = "running"
    """Bound, or allocated in this cycle."""
    RELEASING = "releasing"
    """Evicted or being deleted."""
    PIPELINED = "pipelined"
    """Assigned to a node on which it starts once other tasks have left."""


class Place(NamedTuple):
    """Where a task is."""

    status: Status
    node: str = ""
    groups: tuple[str, ...] = ()
    """GPU groups that it shares."""
    was: Status | None = None
    """Its status before this cycle evicted it; it may be placed again."""

    @property
    def evicted(self) -> bool:
        return self.was is not None

    @property
    def active(self) -> bool:
        return self.status in (Status.RUNNING, Status.PIPELINED)


@dataclass(frozen=True)
class Task:
    """A pod."""

    id: str
    """``namespace/name``."""
    job: str
    requests: PodRequests
    nodes: frozenset[str] | None = None
    """Nodes that its selectors, affinity, tolerations and volumes allow; None for all."""
    created: str = ""
    uid: str = ""
    rank: int | None = None
    """Order within its job by the label kai.scheduler/task-priority: higher first, before tasks without."""
    subgroup: str = ""
    constraints: str = ""
    """What else than its requests decides where it can run; equal texts for equal constraints."""

    @property
    def order(self) -> tuple[int, int, str, str]:
        return (1, 0, self.created, self.uid) if self.rank is None else (0, -self.rank, self.created, self.uid)

    @property
    def shared(self) -> bool:
        return self.requests.shares_gpu

    @property
    def by_memory(self) -> bool:
        return self.requests.gpu_memory is not None and self.requests.fraction is None

    @property
    def gpu_devices(self) -> int:
        return self.requests.devices if self.shared else self.requests.gpus

    @property
    def vector(self) -> tuple[float, float, float]:
        """Requested millicores, bytes and GPUs; 0 GPUs for gpu-memory."""
        gpus = self.requests.gpus + (self.requests.fraction or 0.0) * self.requests.devices
        return self.requests.cpu, self.requests.memory, round(gpus, 9)


@dataclass(frozen=True)
class Job:
    """A workload: the tasks of one PodGroup."""

    id: str
    """``namespace/name`` of its PodGroup."""
    queue: str
    tasks: tuple[Task, ...]
    minimum: Mapping[str, int] = field(default_factory=lambda: {"": 1})
    """Subgroup → tasks that must run together (minMember)."""
    priority: int = 50
    preemptible: bool = True
    created: str = ""
    title: str = ""
    """For messages, such as Job team/train."""
    recreated: bool = True
    """Whether a controller creates a pod of it again; none does for a pod by itself."""

    @property
    def order(self) -> tuple[str, str]:
        """By age; of one second by the PodGroup's name, which is the UID of KAI's jobs (cluster_info.go)."""
        return self.created, self.id.rpartition("/")[2]

    def minimum_of(self, tasks: Iterable[Task]) -> Job:
        """Return the job with these tasks alone, and minimums that they can meet."""
        kept = tuple(tasks)
        counts = {name: sum(task.subgroup == name for task in kept) for name in self.minimum}
        minimum = {name: min(least, counts[name]) if counts[name] else least for name, least in self.minimum.items()}
        if len(self.minimum) > 1:
            minimum = {name: least for name, least in minimum.items() if counts[name]}
        return replace(self, tasks=kept, minimum=minimum)


@dataclass(frozen=True)
class Worker:
    """A node: what it offers."""

    name: str
    amounts: Mapping[str, float]
    """Allocatable: cpu in millicores, memory in bytes, pods, nvidia.com/gpu and others."""
    gpu_memory: int = 100
    """MiB of one GPU as KAI counts."""

    def share_memory(self, task: Task) -> int:
        """MiB that a sharing task takes of each of its GPUs here (GetResourceGpuMemory)."""
        if task.requests.gpu_memory:
            return task.requests.gpu_memory
        portion = task.requests.fraction if task.requests.fraction is not None else float(bool(task.requests.gpus))
        return int(portion * self.gpu_memory)
