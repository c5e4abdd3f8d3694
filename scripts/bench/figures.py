"""What was measured: figures with their spread, the machine, the history of runs, and limits. Pure but for files."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.version import VERSION

SCHEMA_VERSION = 1

Json = dict[str, Any]


@dataclass(frozen=True)
class StepUse:
    """A step of ``kailab up``: its time, and the CPU that the nodes used meanwhile; other steps run beside it."""

    step: str
    began: float
    seconds: float
    critical: bool
    cpu: float | None

    def verdict(self, cores: int) -> str:
        """What the step is bound by: ``CPU`` if the nodes used three quarters of the machine, or ``waiting``."""
        if self.cpu is None or not self.seconds:
            return "not measured"
        return "CPU" if self.cpu >= 0.75 * cores * self.seconds else "waiting"


@dataclass
class Figures:
    """The values of each figure in the order of measurement, in seconds unless the name ends in ``ratio``."""

    values: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What the reader must know, such as where the two sides differ."""
    problems: list[str] = field(default_factory=list)
    """What went wrong in a run that was measured."""
    steps: tuple[StepUse, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    machine: Json = field(default_factory=lambda: machine_facts())

    def add(self, name: str, value: float) -> None:
        """Add a value and print it."""
        self.values.setdefault(name, []).append(value)
        print(f"{name}: {value:.2f}", flush=True)

    def document(self) -> Json:
        """The result for ``--json`` and the history."""
        return {
            "schemaVersion": SCHEMA_VERSION,
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "kailab": VERSION,
            "machine": self.machine,
            "lab": self.facts,
            "figures": {name: summary(values) for name, values in self.values.items()},
            "steps": [{**asdict(one), "bound": one.verdict(os.cpu_count() or 1)} for one in self.steps],
            "notes": self.notes,
            "problems": self.problems,
        }


def summary(values: Sequence[float]) -> Json:
    """Median, 95th percentile (interpolated), extremes and the values themselves."""
    p95 = statistics.quantiles(values, n=20, method="inclusive")[18] if len(values) > 1 else values[0]
    found = {"median": statistics.median(values), "p95": p95, "min": min(values), "max": max(values)}
    return {**{name: round(value, 3) for name, value in found.items()}, "values": [round(one, 3) for one in values]}


def machine_facts() -> Json:
    """The machine and its load now."""
    return {
        "cpus": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "arch": platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": [round(one, 1) for one in os.getloadavg()],
    }


def last_run(history: Path, now: Json) -> Json | None:
    """The newest run in the history on a machine and a lab like this; None without any."""

    def alike(run: Json) -> bool:
        keys = ("cpus", "memory_gib", "arch")
        same = all(run["machine"].get(key) == now["machine"].get(key) for key in keys)
        return same and run["lab"].get("profile") == now["lab"].get("profile")

    try:
        runs = [json.loads(line) for line in history.read_text().splitlines() if line.strip()]
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise LabError(f"the history {history} is unreadable: {error}", fix="move it away, or name another") from error
    return next((run for run in reversed(runs) if alike(run)), None)


def remember(history: Path, document: Json) -> None:
    """Append a run to the history, one line of JSON."""
    history.parent.mkdir(parents=True, exist_ok=True)
    with history.open("a") as file:
        file.write(json.dumps(document) + "\n")


def table(now: Json, before: Json | None) -> list[str]:
    """A row for each figure, with the ratio of its median to that of the last run."""
    lines = [f"{'':<44}{'n':>4}{'min':>9}{'median':>9}{'p95':>9}{'max':>9}{'/ last':>9}"]
    for name, one in now["figures"].items():
        last = ((before or {}).get("figures") or {}).get(name)
        ratio = f"{one['median'] / last['median']:.2f}" if last and last["median"] else "-"
        spread = "".join(f"{one[key]:>9.2f}" for key in ("min", "median", "p95", "max"))
        lines.append(f"{name:<44}{len(one['values']):>4}{spread}{ratio:>9}")
    return lines


def limits_of(texts: Sequence[str]) -> dict[str, float]:
    """Limits by figure from ``KEY=VALUE`` and from TOML files of such lines. Raises LabError."""
    found: dict[str, float] = {}
    for text in texts:
        key, given, value = text.rpartition("=")
        try:
            rows: Mapping[str, Any] = {key: value} if given else tomllib.loads(Path(text).read_text())
            found.update({name: float(limit) for name, limit in rows.items()})
        except (OSError, ValueError, TypeError) as error:
            raise LabError(
                f"limits {text!r} are unusable: {error}", fix="write KEY=VALUE, or name a TOML file of such lines"
            ) from error
    return found


def exceeded(document: Json, limits: Mapping[str, float]) -> list[str]:
    """The limits that a run does not keep, or that name what it did not measure; ``KEY.p95`` is of the percentile."""
    lines = []
    for key, limit in limits.items():
        name, measure = (key.removesuffix(".p95"), "p95") if key.endswith(".p95") else (key, "median")
        one = document["figures"].get(name)
        if one is None:
            lines.append(f"{name} was not measured; measured: {', '.join(document['figures']) or 'nothing'}")
        elif one[measure] > limit:
            lines.append(f"{measure} of {name} is {one[measure]:g}, more than {limit:g}")
    return lines
