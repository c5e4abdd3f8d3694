"""The result of a comparison, as frozen data. Times are seconds; shares are GPUs (0.5 is half of one)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

Letter = Literal["a", "b"]

CLOCK = (
    "Times are those at which the watches of this process saw a change, on one monotonic clock for both tenants: the"
    " API servers' own timestamps are whole seconds."
)


@dataclass(frozen=True)
class Side:
    """One of the two tenants; ``scheduler`` is a phrase such as ``KAI 0.9.3 in the tenant``.

    ``kai`` is empty with the default scheduler, ``nodes`` without dedicated nodes.
    """

    letter: Letter
    tenant: str
    mode: str
    scheduler: str
    kai: str
    kubernetes: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Spread:
    """Distribution of a figure over pods; None without pods."""

    count: int
    least: float | None = None
    p50: float | None = None
    p95: float | None = None
    """By nearest rank: of fewer than 20 values, the largest."""

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        found = sorted(values)
        if not found:
            return cls(0)
        p50, p95 = (found[math.ceil(part * len(found)) - 1] for part in (0.5, 0.95))
        return cls(len(found), found[0], p50, p95)


@dataclass(frozen=True)
class PodRun:
    """One pod of one run. Times are seconds after the run began; None if it did not get that far."""

    lane: str
    """Pairs it with the pod of the other tenant: its name, or its workload and a number."""
    workload: str
    """``Kind/name`` in the workload file."""
    name: str
    queue: str
    """As in the workload file, even if the tenant has no queues."""
    asked: str
    gpus: float
    created: float
    """When its creation was requested; for a pod of a controller, when it was seen first."""
    scheduled: float | None
    running: float | None
    gone: float | None
    """When its deletion began, or it had ended."""
    node: str
    devices: tuple[str, ...]
    """Its GPUs when the run ended, as ``GPU 0 of NODE (GPU-1b4e28ba)``."""
    state: str
    """running, succeeded, failed, evicted, starting or pending."""
    evicted: str = ""
    """KAI's action: preempt, reclaim or consolidation; ``deleted`` without an event of KAI."""
    why: tuple[str, ...] = ()
    """Why it is pending, according to ``kailab explain``."""

    @property
    def to_scheduled(self) -> float | None:
        """Seconds from creation to a node."""
        return None if self.scheduled is None else round(self.scheduled - self.created, 3)

    @property
    def to_running(self) -> float | None:
        """Seconds from creation to phase Running."""
        return None if self.running is None else round(self.running - self.created, 3)

    JSON = "* seconds_to_scheduled=to_scheduled seconds_to_running=to_running"


@dataclass(frozen=True)
class ComparedGpu:
    """One GPU when the run ended: the share ``fill`` of the workload's pods (as lanes), and that of others."""

    node: str
    title: str
    uuid: str
    fill: float
    others: float
    pods: tuple[str, ...]


@dataclass(frozen=True)
class Packing:
    """The workload's GPUs when the run ended; ``placed`` is the sum of shares, ``unplaced`` counts pods without one."""

    devices: tuple[ComparedGpu, ...]
    placed: float
    unplaced: int = 0

    @property
    def touched(self) -> int:
        """Number of GPUs that it uses."""
        return len(self.devices)

    @property
    def least(self) -> int:
        """Smallest number of GPUs that could hold the same shares."""
        return math.ceil(round(self.placed, 6))

    @property
    def stranded(self) -> float:
        """Free share of the GPUs that it uses: no pod that wants a whole GPU can have it."""
        return round(sum(max(0.0, 1.0 - device.fill - device.others) for device in self.devices), 6)

    @property
    def fragmentation(self) -> float:
        """``stranded`` divided by ``touched``: 0 if every GPU that it uses is full."""
        return round(self.stranded / self.touched, 4) if self.touched else 0.0

    JSON = "* touched least stranded fragmentation"


@dataclass(frozen=True)
class Fairness:
    """GPU-seconds by queue, and Jain's index; see ``lab.compare.measure.fairness``."""

    gpu_seconds: Mapping[str, float]
    jain: float | None


class EvictedLane(TypedDict):
    """A lane, and KAI's action."""

    pod: str
    by: str


class PendingLane(TypedDict):
    """A lane, and why its pod is pending."""

    pod: str
    why: Sequence[str]


@dataclass(frozen=True)
class Run:
    """One run of the workload in one tenant: round ``number``, at position ``order`` (both 1 if they ran at once)."""

    letter: Letter
    number: int
    order: int
    seconds: float
    settled: bool
    pods: tuple[PodRun, ...]
    packing: Packing
    fairness: Fairness
    notes: tuple[str, ...] = ()

    @property
    def starts(self) -> tuple[str, ...]:
        """Lanes in the order in which their pods began to run."""
        began = sorted((pod.running, pod.lane) for pod in self.pods if pod.running is not None)
        return tuple(lane for _, lane in began)

    @property
    def evictions(self) -> tuple[PodRun, ...]:
        return tuple(pod for pod in self.pods if pod.evicted)

    @property
    def pending(self) -> tuple[PodRun, ...]:
        return tuple(pod for pod in self.pods if pod.state == "pending")

    @property
    def evicted_pods(self) -> tuple[EvictedLane, ...]:
        return tuple({"pod": pod.lane, "by": pod.evicted} for pod in self.evictions)

    @property
    def pending_pods(self) -> tuple[PendingLane, ...]:
        return tuple({"pod": pod.lane, "why": pod.why} for pod in self.pending)

    JSON = (
        "side=letter round=number order seconds settled starts pods packing evictions=evicted_pods "
        "pending=pending_pods fairness notes"
    )


@dataclass(frozen=True)
class Difference:
    """A difference in what the schedulers wrote in the last round."""

    kind: Literal["annotation", "label", "PodGroup"]
    name: str
    """The key's field of ``lab.kai.Keys``, or the key itself; of a PodGroup its workload."""
    a: str
    """Key and normalized value in A, or a description of the PodGroups; empty if only B has it."""
    b: str
    lanes: tuple[str, ...]


@dataclass(frozen=True)
class SideFigures:
    """A tenant with its times over all rounds."""

    side: Side
    seconds_to_scheduled: Spread
    seconds_to_running: Spread

    JSON = "*side seconds_to_scheduled seconds_to_running"


@dataclass(frozen=True)
class Comparison:
    """The whole comparison."""

    lab: str
    a: Side
    b: Side
    rounds: int
    at_once: bool
    runs: tuple[Run, ...]
    """In the order in which they ran."""
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]
    """Adaptations of the workload to the tenants, and lint's warnings."""
    clock: str = CLOCK

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.a, self.b

    @property
    def order(self) -> str:
        """The order of the runs, such as ``1A, 1B, 2B, 2A``."""
        if self.at_once:
            return "both at once"
        return ", ".join(f"{run.number}{run.letter.upper()}" for run in self.runs)

    def side(self, letter: Letter) -> Side:
        return self.a if letter == "a" else self.b

    def of(self, letter: Letter) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.letter == letter)

    def scheduled(self, letter: Letter) -> Spread:
        """Seconds to a node over all rounds, of the pods that got one."""
        return Spread.of(p.to_scheduled for r in self.of(letter) for p in r.pods if p.to_scheduled is not None)

    def running(self, letter: Letter) -> Spread:
        """Seconds to phase Running over all rounds, of the pods that reached it."""
        return Spread.of(p.to_running for r in self.of(letter) for p in r.pods if p.to_running is not None)

    @property
    def by_letter(self) -> Mapping[str, SideFigures]:
        return {
            side.letter: SideFigures(side, self.scheduled(side.letter), self.running(side.letter))
            for side in self.sides
        }

    JSON = "lab clock order rounds at_once notes sides=by_letter runs differences"
