"""A comparison in words: the rows that the table and the page both show. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lab.compare.model import Comparison, Letter, PodRun, Run, Side, Spread
from lab.text import count

NONE = "none"


@dataclass(frozen=True)
class Figure:
    """One figure for both sides."""

    name: str
    a: str
    b: str
    note: str = ""
    """What it means."""


@dataclass(frozen=True)
class Pair:
    """The pods of one lane in one round; None where a side had none."""

    lane: str
    a: PodRun | None
    b: PodRun | None


def figures(comparison: Comparison) -> tuple[Figure, ...]:
    """The summary. Figures of a run stand once for each round, first round first."""

    def both(name: str, tell: Callable[[Letter], str], note: str = "") -> Figure:
        return Figure(name, tell("a"), tell("b"), note)

    def each(tell: Callable[[Run], str]) -> Callable[[Letter], str]:
        return lambda letter: " · ".join(tell(run) for run in comparison.of(letter)) or NONE

    sides: dict[Letter, Side] = {"a": comparison.a, "b": comparison.b}
    return (
        both("scheduler", lambda letter: sides[letter].scheduler),
        both("mode, Kubernetes", lambda letter: f"{sides[letter].mode}, {sides[letter].kubernetes}"),
        both("own nodes", lambda letter: ", ".join(sides[letter].nodes) or NONE),
        both("seconds to scheduled", lambda letter: spread(comparison.scheduled(letter)), "least / median / p95"),
        both("seconds to running", lambda letter: spread(comparison.running(letter)), "least / median / p95"),
        both("GPUs touched", each(_touched), "in brackets: that the same shares need at least"),
        both("free on those GPUs", each(lambda run: f"{run.packing.stranded:g}"), "in GPUs"),
        both(
            "fragmentation",
            each(lambda run: f"{run.packing.fragmentation * 100:.0f} %"),
            "free by touched; 0 %: all full",
        ),
        both("evictions", each(lambda run: str(len(run.evictions)))),
        both("pending at the end", each(lambda run: str(len(run.pending)))),
        both("fairness", each(_fairness), "Jain's index of GPU-seconds per queue; 1: all alike"),
        both("came to rest", each(lambda run: f"{'yes' if run.settled else 'no'}, {run.seconds:.1f} s")),
    )


def pairs(comparison: Comparison, number: int) -> tuple[Pair, ...]:
    """The pods of a round side by side, in the order in which A's, then B's, were created."""
    found: dict[Letter, dict[str, PodRun]] = {"a": {}, "b": {}}
    for run in comparison.runs:
        if run.number == number:
            found[run.letter] = {pod.lane: pod for pod in run.pods}
    lanes = dict.fromkeys([*found["a"], *found["b"]])
    return tuple(Pair(lane, found["a"].get(lane), found["b"].get(lane)) for lane in lanes)


def order_of_starts(comparison: Comparison, number: int) -> str:
    """The order in which pods began to run in a round, in words."""
    runs = {run.letter: run.starts for run in comparison.runs if run.number == number}
    a, b = runs.get("a", ()), runs.get("b", ())
    if a == b:
        return f"both: {_list(a)}"
    return f"A: {_list(a)}; B: {_list(b)}"


def where(pod: PodRun) -> str:
    """Where a pod is, or was, or that it is nowhere."""
    if pod.devices:
        return ", ".join(pod.devices)
    return pod.node or "no node"


def state(pod: PodRun) -> str:
    """How it ended up."""
    return f"evicted: {pod.evicted}" if pod.evicted and pod.evicted != "deleted" else pod.evicted or pod.state


def spread(found: Spread) -> str:
    """``0.41 / 0.90 / 2.10, 9 pods``."""
    if found.least is None or found.p50 is None or found.p95 is None:
        return NONE
    pods = count(found.count, "pod")
    return f"{found.least:.2f} / {found.p50:.2f} / {found.p95:.2f}, {pods}"


def moment(value: float | None) -> str:
    """Seconds, or that there are none."""
    return "–" if value is None else f"{value:.2f}"


def _touched(run: Run) -> str:
    unplaced = f", {run.packing.unplaced} pods on GPUs nobody told" if run.packing.unplaced else ""
    return f"{run.packing.touched} ({run.packing.least}){unplaced}"


def _fairness(run: Run) -> str:
    held = ", ".join(f"{queue} {seconds:g}" for queue, seconds in run.fairness.gpu_seconds)
    if run.fairness.jain is None:
        return NONE
    return f"{run.fairness.jain:.3f} ({held})"


def _list(lanes: Iterable[str]) -> str:
    return ", ".join(lanes) or "nobody"
