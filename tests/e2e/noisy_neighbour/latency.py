"""Data of the neighbour monitor: latencies of small pods, and running pods that changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

BEFORE, DURING, AFTER = PHASES = ("before", "during", "after")
"""Phases of a monitored fault: before it, while it is active, and after the repair."""

SCHEDULED, RUNNING = STAGES = ("scheduled", "running")
"""Stages to which a small pod is timed: it has a node; it is Ready."""


@dataclass(frozen=True)
class Sample:
    """One small pod of a neighbour: seconds from the create request to the watch event of each stage.

    None if it did not reach the stage within the monitor's limit; ``trouble`` is the error if it was refused.
    """

    neighbour: str
    phase: str
    scheduled: float | None
    running: float | None
    trouble: str = ""


@dataclass(frozen=True)
class Finding:
    """A running pod of a neighbour that changed."""

    neighbour: str
    phase: str
    pod: str
    """``namespace/name`` in the neighbour's cluster."""
    change: str
    at: float
    """Seconds since the monitor started."""


@dataclass(frozen=True)
class Latency:
    """Latencies of the small pods of one phase, in seconds; a missed pod counts with the monitor's limit."""

    count: int
    missed: int
    p50: float
    p95: float
    worst: float

    @classmethod
    def of(cls, seconds: Iterable[float | None], limit: float) -> Latency:
        """Summarize times, None for a pod that missed ``limit``; percentiles of no times are NaN."""
        times = list(seconds)
        values = sorted(limit if value is None else value for value in times)
        return cls(
            len(values), times.count(None), percentile(values, 50), percentile(values, 95), percentile(values, 100)
        )


@dataclass(frozen=True)
class MonitorReport:
    """Everything that one monitor observed."""

    limit: float
    """Seconds within which a small pod must run."""
    watched: Mapping[str, int]
    """Neighbour → number of its running pods that were watched."""
    samples: tuple[Sample, ...] = ()
    findings: tuple[Finding, ...] = ()
    gaps: tuple[str, ...] = ()
    """Interruptions of a watch: changes in between appear as one."""

    def latency(self, neighbour: str, phase: str, stage: str = SCHEDULED) -> Latency:
        """Return the latencies of one neighbour's small pods that were created in one phase."""
        samples = (one for one in self.samples if (one.neighbour, one.phase) == (neighbour, phase))
        return Latency.of((getattr(one, stage) for one in samples), self.limit)

    def slowed(self, factor: float, floor: float, stage: str = SCHEDULED) -> tuple[str, ...]:
        """Describe neighbours whose median during the fault is above ``factor`` × median before + ``floor`` seconds.

        A neighbour without samples in one of the phases counts as slowed.
        """
        lines = []
        for name in self.watched:
            before, during = self.latency(name, BEFORE, stage), self.latency(name, DURING, stage)
            bound = factor * before.p50 + floor
            if not during.p50 <= bound:
                lines.append(f"{name}: {stage} p50 {during.p50:.2f} s, {before.p50:.2f} s before (bound {bound:.2f} s)")
        return tuple(lines)

    def unserved(self, phase: str) -> tuple[str, ...]:
        """Describe small pods of a phase that were refused or did not run in time."""
        return tuple(
            f"{one.neighbour}: {one.trouble or f'not running within {self.limit:g} s'}"
            for one in self.samples
            if one.phase == phase and one.running is None
        )

    def as_json(self) -> dict[str, Any]:
        """Return JSON data: the latencies of every neighbour and phase, each sample, and each finding."""
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
    """Return the nearest-rank percentile of sorted values; NaN without values."""
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)] if ordered else math.nan


def _rounded(latency: Latency) -> dict[str, int | float | None]:
    """JSON data of a latency; JSON has no NaN."""
    return {
        key: None if isinstance(value, float) and math.isnan(value) else round(value, 3)
        for key, value in asdict(latency).items()
    }
