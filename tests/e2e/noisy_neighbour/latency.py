"""What a vigil over neighbours has seen, as frozen data: times of small pods, and running pods that changed. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

BEFORE, DURING, AFTER = PHASES = ("before", "during", "after")
"""What a vigil tells apart: before anything is done to a tenant, while it suffers, and once it is whole again."""

SCHEDULED, RUNNING = STAGES = ("scheduled", "running")
"""What a small pod is timed by: it has a node; it is Ready."""


@dataclass(frozen=True)
class Sample:
    """One small pod of a neighbour: seconds from the request that creates it, by arrival on a watch.

    None where it did not come so far within the vigil's limit; ``trouble`` is why it was refused, if it was.
    """

    neighbour: str
    phase: str
    scheduled: float | None
    running: float | None
    trouble: str = ""


@dataclass(frozen=True)
class Finding:
    """A running pod of a neighbour that did not stay as it was."""

    neighbour: str
    phase: str
    pod: str
    """Its namespace and name, in the neighbour's cluster."""
    what: str
    at: float
    """Seconds since the vigil began."""


@dataclass(frozen=True)
class Latency:
    """How long the small pods of one phase took. Seconds; one that never came counts with the vigil's limit."""

    count: int
    missed: int
    p50: float
    p95: float
    worst: float

    @classmethod
    def of(cls, seconds: Iterable[float | None], limit: float) -> Latency:
        """The figures of some times, each None where the pod did not come within ``limit``; NaN without any."""
        every = list(seconds)
        values = sorted(limit if value is None else value for value in every)
        return cls(
            len(values), every.count(None), percentile(values, 50), percentile(values, 95), percentile(values, 100)
        )


@dataclass(frozen=True)
class VigilReport:
    """Everything that one vigil has seen."""

    limit: float
    """Seconds that a small pod was given."""
    watched: Mapping[str, int]
    """Neighbour → how many of its running pods were watched."""
    samples: tuple[Sample, ...] = ()
    findings: tuple[Finding, ...] = ()
    gaps: tuple[str, ...] = ()
    """When a watch broke off: what happened meanwhile shows as one step."""

    def latency(self, neighbour: str, phase: str, stage: str = SCHEDULED) -> Latency:
        """The times of one neighbour's small pods that were created in one phase."""
        mine = (one for one in self.samples if (one.neighbour, one.phase) == (neighbour, phase))
        return Latency.of((getattr(one, stage) for one in mine), self.limit)

    def slowed(self, factor: float, floor: float, stage: str = SCHEDULED) -> tuple[str, ...]:
        """Neighbours whose median during the fire is above ``factor`` × their median before plus ``floor`` seconds.

        A neighbour that was not timed in both phases counts as slowed: nothing is known of it.
        """
        told = []
        for name in self.watched:
            before, during = self.latency(name, BEFORE, stage), self.latency(name, DURING, stage)
            bound = factor * before.p50 + floor
            if not during.p50 <= bound:
                told.append(f"{name}: {stage} p50 {during.p50:.2f} s, {before.p50:.2f} s before (bound {bound:.2f} s)")
        return tuple(told)

    def unserved(self, phase: str) -> tuple[str, ...]:
        """Small pods of a phase that were refused or did not run in time."""
        return tuple(
            f"{one.neighbour}: {one.trouble or f'not running within {self.limit:g} s'}"
            for one in self.samples
            if one.phase == phase and one.running is None
        )

    def as_json(self) -> dict[str, Any]:
        """Plain data: the figures of every neighbour and phase, each sample, and each finding."""
        figures = {
            name: {phase: {stage: _rounded(self.latency(name, phase, stage)) for stage in STAGES} for phase in PHASES}
            for name in self.watched
        }
        return {
            "limit": self.limit,
            "watched": dict(self.watched),
            "figures": figures,
            "findings": [asdict(finding) for finding in self.findings],
            "gaps": list(self.gaps),
            "samples": [asdict(sample) for sample in self.samples],
        }


def percentile(ordered: list[float], percent: float) -> float:
    """The smallest of sorted values that so many percent of them do not pass (nearest rank); NaN without any."""
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)] if ordered else math.nan


def _rounded(latency: Latency) -> dict[str, int | float | None]:
    """As plain data; JSON has no NaN."""
    return {
        key: None if isinstance(value, float) and math.isnan(value) else round(value, 3)
        for key, value in asdict(latency).items()
    }
