"""A comparison of two tenants as one HTML file: no network, no script, light and dark.

Both sides of a round have the same lanes and the same axis. A pod's lane shows its times waiting for a node, starting
and running; below, each GPU shows the shares that the workload and others hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lab.compare.model import ComparedGpu, Comparison, PodRun, Run, Side
from lab.compare.text import figures, order_of_starts, pairs, remarks, state
from lab.report.templates import render
from lab.report.timing_chart import LEAST, TimingBar, TimingChart, TimingLane, bar


@dataclass(frozen=True)
class SideCharts:
    """One side of a round."""

    side: Side
    about: str
    pods: TimingChart
    gpus: tuple[TimingLane, ...]


def compare_page(comparison: Comparison) -> str:
    """The page: figures, charts and pods of each round, differences in what was written, and why pods wait."""
    return render(
        "compare.html.j2",
        styles=("page.css", "compare.css"),
        comparison=comparison,
        figures=figures(comparison),
        rounds=[
            {
                "number": number,
                "starts": order_of_starts(comparison, number),
                "sides": round_charts(comparison, number),
                "pairs": pairs(comparison, number),
            }
            for number in range(1, comparison.rounds + 1)
        ],
        remarks=list(remarks(comparison)),
    )


def round_charts(comparison: Comparison, number: int) -> tuple[SideCharts, ...]:
    """Both sides of a round. The axis ends a little after the last event, before the wait for the run to settle."""
    runs = sorted((run for run in comparison.runs if run.number == number), key=lambda run: run.letter)
    times = (time for run in runs for pod in run.pods for time in (*_times(pod), pod.gone) if time is not None)
    end = max(times, default=0.0) * 1.15 + 0.5
    lanes = [lane for lane, _, _ in pairs(comparison, number)]
    return tuple(_side(comparison.side(run.letter), run, lanes, end) for run in runs)


def _side(side: Side, run: Run, lanes: list[str], end: float) -> SideCharts:
    pods = {pod.lane: pod for pod in run.pods}
    turn = {1: "ran first", 2: "ran second"}.get(run.order, "")
    return SideCharts(
        side=side,
        about=f"{turn}, {'settled' if run.settled else 'not settled'} after {run.seconds:.1f} s",
        pods=TimingChart(end, tuple(_lane(lane, pods.get(lane), end) for lane in lanes)),
        gpus=tuple(map(_gpu, run.packing.devices)),
    )


def _times(pod: PodRun) -> tuple[float, float | None, float | None]:
    return pod.created, pod.scheduled, pod.running


def _lane(lane: str, pod: PodRun | None, end: float) -> TimingLane:
    if pod is None:
        return TimingLane(lane, (), "no such pod", bad=True)
    bars = tuple(_bars(pod, end))
    calm = pod.state in ("running", "succeeded")
    words = state(pod) if not calm or pod.to_running is None else f"{pod.to_running:.2f} s"
    note = [f"{lane} ({pod.workload}), {pod.asked}: {state(pod)}", *(part.title for part in bars), *pod.devices]
    gone = None if pod.gone is None or not pod.evicted else round(min(pod.gone, end) / end * 100, 3)
    return TimingLane(lane, bars, words, "\n".join(note), gone, bad=not calm)


def _bars(pod: PodRun, end: float) -> Iterator[TimingBar]:
    last = end if pod.gone is None else pod.gone
    for number, (kind, begin) in enumerate(zip(("waiting", "starting", "running"), _times(pod), strict=True)):
        if begin is None:
            return
        following = next((time for time in _times(pod)[number + 1 :] if time is not None), last)
        until = min(max(following, begin), end)
        if number == 0 and (until - begin) / end * 100 < LEAST:
            continue  # too short to be visible; the table shows the times
        yield bar(kind, begin, until - begin, end, f"{kind}: {begin:.2f} s to {until:.2f} s")


def _gpu(gpu: ComparedGpu) -> TimingLane:
    total = max(1.0, gpu.fill + gpu.others)
    note = f"{gpu.title}: {gpu.fill:g} held by {', '.join(gpu.pods)}"
    bars = [bar("own", 0.0, gpu.fill, total, note)]
    words = f"{gpu.fill:g}"
    if gpu.others:
        note += f", {gpu.others:g} by pods that are not of the workload"
        bars.append(bar("others", gpu.fill, gpu.others, total, note))
        words += f" + {gpu.others:g}"
    return TimingLane(gpu.title.partition(" (")[0], tuple(bars), words, note)
