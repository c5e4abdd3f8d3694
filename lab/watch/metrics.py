"""Metrics in Prometheus' text format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats)."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

BUCKETS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0)
"""Upper bounds of a histogram, in seconds; KAI's scheduling cycle takes 1 s."""

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")

Labels = tuple[str, ...]
"""Values of a metric's labels, in their order."""


@dataclass(frozen=True)
class Metric:
    """A metric with its series."""

    name: str
    help: str
    kind: Literal["gauge", "counter", "histogram"] = "gauge"
    labels: tuple[str, ...] = ()
    series: dict[Labels, float] = field(default_factory=dict)
    buckets: dict[Labels, list[int]] = field(default_factory=dict)
    """Of a histogram: the observations up to each bound, the last one without a bound; ``series`` has their sum."""

    def lines(self) -> Iterable[str]:
        """The metric in text format."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for values, value in self.series.items():
            if self.kind != "histogram":
                yield f"{self.name}{self._labels(values)} {_number(value)}"
                continue
            counts = self.buckets[values]
            for bound, number in zip((*map(_number, BUCKETS), "+Inf"), counts, strict=True):
                yield f"{self.name}_bucket{self._labels(values, le=bound)} {number}"
            yield f"{self.name}_sum{self._labels(values)} {_number(value)}"
            yield f"{self.name}_count{self._labels(values)} {counts[-1]}"

    def _labels(self, values: Labels, **more: str) -> str:
        pairs = {**dict(zip(self.labels, values, strict=True)), **more}
        text = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs.items())
        return f"{{{text}}}" if text else ""


class Metrics:
    """The metrics of a process, by name; thread-safe."""

    def __init__(self, *metrics: Metric) -> None:
        self._metrics = {metric.name: metric for metric in metrics}
        self._lock = threading.Lock()

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge."""
        with self._lock:
            self._metrics[name].series[labels] = value

    def replace(self, name: str, values: Mapping[Labels, float]) -> None:
        """Set all series of a gauge; others end."""
        with self._lock:
            series = self._metrics[name].series
            series.clear()
            series.update(values)

    def add(self, name: str, amount: float, *labels: str) -> None:
        """Add to a counter; 0 creates the series, so that rates see its first increase."""
        with self._lock:
            series = self._metrics[name].series
            series[labels] = series.get(labels, 0.0) + amount

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Add an observation to a histogram."""
        with self._lock:
            metric = self._metrics[name]
            counts = metric.buckets.setdefault(labels, [0] * (len(BUCKETS) + 1))
            metric.series[labels] = metric.series.get(labels, 0.0) + value
            for at, bound in enumerate((*BUCKETS, float("inf"))):
                counts[at] += value <= bound

    def text(self) -> str:
        """All metrics in text format."""
        with self._lock:
            return "".join(f"{line}\n" for metric in self._metrics.values() for line in metric.lines())


def series_of(text: str) -> Iterable[tuple[str, Mapping[str, str], float]]:
    """The series of a text as ``Metrics.text`` writes it: name, labels and value."""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            name, _, labels = series.partition("{")
            pairs = _LABEL.findall(labels)
            yield name, {key: _ESCAPED.sub(_unescaped, text) for key, text in pairs}, float(value)


def _number(value: float) -> str:
    return f"{value:.17g}" if value % 1 else f"{value:.0f}"


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
