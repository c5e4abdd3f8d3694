"""What a comparison says, as frozen data. Times are seconds; shares are GPUs (0.5 is half of one)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Letter = Literal["a", "b"]

CLOCK = (
    "Times are those at which the watches of this process saw a change, on one monotonic clock for both tenants: the"
    " API servers' own timestamps are whole seconds."
)


@dataclass(frozen=True)
class Side:
    """One of the two tenants."""

    letter: Letter
    tenant: str
    mode: str
    scheduler: str
    """In words: ``KAI 0.9.3 in the tenant``."""
    kai: str
    """KAI's version; empty where the default scheduler places the pods."""
    kubernetes: str
    nodes: tuple[str, ...]
    """The nodes that are this tenant's alone; none: it shares those that are nobody's."""


@dataclass(frozen=True)
class Spread:
    """How a figure is spread over pods; None where there are none."""

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

        def rank(part: float) -> float:
            return found[max(0, math.ceil(part * len(found)) - 1)]

        return cls(len(found), found[0], rank(0.5), rank(0.95))


@dataclass(frozen=True)
class PodRun:
    """One pod of one run. Moments are seconds after the run began; None: it did not come to that."""

    lane: str
    """Pairs it with the pod of the other tenant: its name, or its workload and a number."""
    workload: str
    """``Kind/name`` in the workload file."""
    name: str
    queue: str
    """As the workload file names it, also where the tenant has no queues."""
    asked: str
    gpus: float
    created: float
    """A bare pod: its creation was sent. A workload's pod: it was seen first."""
    scheduled: float | None
    running: float | None
    gone: float | None
    """Its deletion began, or it had ended."""
    node: str
    devices: tuple[str, ...]
    """GPUs it was on when the run ended, as ``GPU 0 of NODE (GPU-1b4e28ba)``."""
    state: str
    """running, succeeded, failed, evicted, starting or pending."""
    evicted: str = ""
    """By what: preempt, reclaim, consolidation, as KAI tells it, or ``deleted``."""
    why: tuple[str, ...] = ()
    """Why it is pending, as ``lab explain`` says it."""

    @property
    def to_scheduled(self) -> float | None:
        """Seconds from creation to a node."""
        return None if self.scheduled is None else round(self.scheduled - self.created, 3)

    @property
    def to_running(self) -> float | None:
        """Seconds from creation to phase Running."""
        return None if self.running is None else round(self.running - self.created, 3)

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "seconds_to_scheduled": self.to_scheduled, "seconds_to_running": self.to_running}


@dataclass(frozen=True)
class ComparedGpu:
    """One GPU that the workload was on when the run ended."""

    node: str
    title: str
    uuid: str
    """Empty where nobody told."""
    fill: float
    """GPUs of it that pods of the workload hold."""
    others: float
    """GPUs of it that other pods hold."""
    pods: tuple[str, ...]
    """Lanes."""


@dataclass(frozen=True)
class Packing:
    """How the workload lies on the GPUs when the run ended."""

    devices: tuple[ComparedGpu, ...]
    placed: float
    """GPUs that its pods hold together."""
    unplaced: int = 0
    """Pods on a node whose GPU nobody told."""

    @property
    def touched(self) -> int:
        """How many GPUs it is on."""
        return len(self.devices)

    @property
    def least(self) -> int:
        """GPUs that the same shares need at least."""
        return math.ceil(round(self.placed, 6))

    @property
    def stranded(self) -> float:
        """What is free on the GPUs that it is on, in GPUs: no pod that wants a whole one can have it."""
        return round(sum(max(0.0, 1.0 - device.fill - device.others) for device in self.devices), 6)

    @property
    def fragmentation(self) -> float:
        """``stranded`` by ``touched``: 0 where every GPU it is on is full."""
        return round(self.stranded / self.touched, 4) if self.touched else 0.0

    def as_json(self) -> dict[str, Any]:
        derived = ("touched", "least", "stranded", "fragmentation")
        return {**vars(self), **{name: getattr(self, name) for name in derived}}


@dataclass(frozen=True)
class Fairness:
    """How equal the queues came off: see ``lab.compare.measure.fairness``."""

    gpu_seconds: tuple[tuple[str, float], ...]
    """Queue and its GPU-seconds, by name."""
    jain: float | None
    """Jain's index; None without queues, or where none had a GPU."""


@dataclass(frozen=True)
class Run:
    """One run of the workload in one tenant."""

    letter: Letter
    number: int
    """Which round, from 1."""
    order: int
    """Which of the round's runs it was, from 1; both are 1 when they ran at once."""
    seconds: float
    settled: bool
    """Whether all had come to rest; otherwise time was up first."""
    pods: tuple[PodRun, ...]
    packing: Packing
    fairness: Fairness
    notes: tuple[str, ...] = ()

    @property
    def starts(self) -> tuple[str, ...]:
        """Lanes in the order in which they began to run."""
        began = sorted((pod.running, pod.lane) for pod in self.pods if pod.running is not None)
        return tuple(lane for _, lane in began)

    @property
    def evictions(self) -> tuple[PodRun, ...]:
        return tuple(pod for pod in self.pods if pod.evicted)

    @property
    def pending(self) -> tuple[PodRun, ...]:
        return tuple(pod for pod in self.pods if pod.state == "pending")

    def as_json(self) -> dict[str, Any]:
        return {
            "side": self.letter,
            "round": self.number,
            "order": self.order,
            "seconds": round(self.seconds, 3),
            "settled": self.settled,
            "starts": self.starts,
            "pods": self.pods,
            "packing": self.packing,
            "evictions": [{"pod": pod.lane, "by": pod.evicted} for pod in self.evictions],
            "pending": [{"pod": pod.lane, "why": pod.why} for pod in self.pending],
            "fairness": {"jain": self.fairness.jain, "gpu_seconds": dict(self.fairness.gpu_seconds)},
            "notes": self.notes,
        }


@dataclass(frozen=True)
class Difference:
    """What the two tenants' schedulers wrote differently, of the last round."""

    kind: Literal["annotation", "label", "PodGroup"]
    name: str
    """What the key means in ``lab.kai.Keys``, or the key itself; of a PodGroup its workload."""
    a: str
    """Key and form of the value in A, or the PodGroups in words; empty: only B has it."""
    b: str
    lanes: tuple[str, ...]


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
    told: tuple[str, ...]
    """What was changed or left out to make the workload fit, and what lint said."""
    clock: str = CLOCK

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.a, self.b

    @property
    def order(self) -> str:
        """In which order the runs took place, in words."""
        if self.at_once:
            return "both at once"
        return ", ".join(f"{run.number}{run.letter.upper()}" for run in self.runs)

    def side(self, letter: Letter) -> Side:
        return self.a if letter == "a" else self.b

    def of(self, letter: Letter) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.letter == letter)

    def scheduled(self, letter: Letter) -> Spread:
        """Seconds to a node over all rounds, for the pods that got one."""
        return Spread.of(p.to_scheduled for r in self.of(letter) for p in r.pods if p.to_scheduled is not None)

    def running(self, letter: Letter) -> Spread:
        """Seconds to phase Running over all rounds, for the pods that came to it."""
        return Spread.of(p.to_running for r in self.of(letter) for p in r.pods if p.to_running is not None)

    def as_json(self) -> dict[str, Any]:
        return {
            "lab": self.lab,
            "clock": self.clock,
            "order": self.order,
            "rounds": self.rounds,
            "at_once": self.at_once,
            "told": self.told,
            "sides": {
                side.letter: {
                    **vars(side),
                    "seconds_to_scheduled": self.scheduled(side.letter),
                    "seconds_to_running": self.running(side.letter),
                }
                for side in self.sides
            },
            "runs": self.runs,
            "differences": self.differences,
        }
