"""A comparison in words: the rows that the terminal and the page both show. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lab.compare.model import Comparison, Letter, PodRun, Run, Spread
from lab.text import count

NONE = "none"


@dataclass(frozen=True)
class Figure:
    """One figure for both sides, with an explanation."""

    name: str
    a: str
    b: str
    note: str = ""


def figures(comparison: Comparison) -> tuple[Figure, ...]:
    """The summary. Figures of runs are listed by round."""

    def both(name: str, words: Callable[[Letter], str], note: str = "") -> Figure:
        return Figure(name, words("a"), words("b"), note)

    def each(words: Callable[[Run], str]) -> Callable[[Letter], str]:
        return lambda letter: " · ".join(words(run) for run in comparison.of(letter)) or NONE

    side = comparison.side
    return (
        both("scheduler", lambda letter: side(letter).scheduler),
        both("mode, Kubernetes", lambda letter: f"{side(letter).mode}, {side(letter).kubernetes}"),
        both("own nodes", lambda letter: ", ".join(side(letter).nodes) or NONE),
        both("seconds to scheduled", lambda letter: spread(comparison.scheduled(letter)), "least / median / p95"),
        both("seconds to running", lambda letter: spread(comparison.running(letter)), "least / median / p95"),
        both("GPUs used", each(_used), "in brackets: the minimum for the same shares"),
        both("free on those GPUs", each(lambda run: f"{run.packing.stranded:g}"), "in GPUs"),
        both("fragmentation", each(lambda run: f"{run.packing.fragmentation * 100:.0f} %"), "free / used; 0 %: full"),
        both("evictions", each(lambda run: str(len(run.evictions)))),
        both("pending at the end", each(lambda run: str(len(run.pending)))),
        both("fairness", each(_fairness), "Jain's index of GPU-seconds per queue; 1: all equal"),
        both("settled", each(lambda run: f"{'yes' if run.settled else 'no'}, {run.seconds:.1f} s")),
    )


def pairs(comparison: Comparison, number: int) -> list[tuple[str, PodRun | None, PodRun | None]]:
    """Lane and pods of a round side by side, in the order of creation; None for a side without it."""
    found: dict[Letter, dict[str, PodRun]] = {"a": {}, "b": {}}
    for run in comparison.runs:
        if run.number == number:
            found[run.letter] = {pod.lane: pod for pod in run.pods}
    lanes = dict.fromkeys([*found["a"], *found["b"]])
    return [(lane, found["a"].get(lane), found["b"].get(lane)) for lane in lanes]


def order_of_starts(comparison: Comparison, number: int) -> str:
    """The order in which the pods of a round began to run."""
    runs = {run.letter: run.starts for run in comparison.runs if run.number == number}
    a, b = runs.get("a", ()), runs.get("b", ())
    if a == b:
        return f"both: {_list(a)}"
    return f"A: {_list(a)}; B: {_list(b)}"


def where(pod: PodRun) -> str:
    """The GPUs or the node of a pod."""
    return ", ".join(pod.devices) or pod.node or "no node"


def state(pod: PodRun) -> str:
    """The state of a pod at the end."""
    return f"evicted: {pod.evicted}" if pod.evicted and pod.evicted != "deleted" else pod.evicted or pod.state


def spread(found: Spread) -> str:
    """``0.41 / 0.90 / 2.10, 9 pods``."""
    if found.least is None or found.p50 is None or found.p95 is None:
        return NONE
    return f"{found.least:.2f} / {found.p50:.2f} / {found.p95:.2f}, {count(found.count, 'pod')}"


def moment(value: float | None) -> str:
    """Seconds, or a dash."""
    return "–" if value is None else f"{value:.2f}"


def remarks(comparison: Comparison) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Pending pods with their reasons, notes on runs, and notes on the comparison: a title and its lines."""
    for run in comparison.runs:
        title = f"round {run.number}, {run.letter.upper()}"
        for pod in run.pending:
            yield f"{title}: {pod.lane} is pending{':' if pod.why else '; no reason found'}", pod.why
        yield from ((f"{title}: {note}", ()) for note in run.notes)
    yield from ((note, ()) for note in comparison.notes)


def _used(run: Run) -> str:
    unplaced = f", {run.packing.unplaced} pods on unknown GPUs" if run.packing.unplaced else ""
    return f"{run.packing.touched} ({run.packing.least}){unplaced}"


def _fairness(run: Run) -> str:
    held = ", ".join(f"{queue} {seconds:g}" for queue, seconds in run.fairness.gpu_seconds.items())
    return NONE if run.fairness.jain is None else f"{run.fairness.jain:.3f} ({held})"


def _list(lanes: Iterable[str]) -> str:
    return ", ".join(lanes) or NONE
