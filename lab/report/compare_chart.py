"""One round of a comparison as a picture: measures of every bar and letter; the template only draws them.

A lane for each pod, the same lanes and the same axis on both sides: waiting (created → node), starting (node →
running), running. Under it a bar for each GPU that the workload was on. Bars have words beside them, so nothing is
said by colour alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.compare.model import ComparedGpu, Comparison, Letter, PodRun, Run, Side
from lab.compare.text import pairs, state
from lab.report.gpu_cards import fit
from lab.report.timing_chart import TimingChart

WIDTH = 560
"""Width of a picture in user units."""

LANE = 26
"""Height of a pod's lane."""

LABEL = 132
"""Width of the names at the left."""

WORDS = 112
"""Width of the words at the right."""

TOP = 8
AXIS = 22
_TRACK = WIDTH - LABEL - WORDS
_LEAST = 2.0
"""Width of a bar at least, so that it can be seen."""


@dataclass(frozen=True)
class CompareBar:
    """A part of a pod's time."""

    kind: str
    """waiting, starting or running, for the style sheet."""
    x: float
    width: float
    title: str


@dataclass(frozen=True)
class CompareLane:
    """One pod."""

    y: int
    name: str
    bars: tuple[CompareBar, ...]
    end: float | None
    """Where it was taken away; None: it was not."""
    words: str
    title: str
    troubled: bool


@dataclass(frozen=True)
class DeviceBar:
    """One GPU."""

    y: int
    name: str
    own: float
    """Width of what the workload holds."""
    others: float
    """Width of what others hold, behind it."""
    words: str
    title: str


@dataclass(frozen=True)
class SidePicture:
    """One side of a round."""

    letter: str
    tenant: str
    scheduler: str
    about: str
    lanes: tuple[CompareLane, ...]
    ticks: tuple[tuple[float, str], ...]
    """Where the axis is marked, and the time in words."""
    axis: int
    """Where the axis lies."""
    height: int
    devices: tuple[DeviceBar, ...]
    devices_height: int
    title: str


def round_pictures(comparison: Comparison, number: int) -> tuple[SidePicture, ...]:
    """Both sides of a round, on one axis."""
    runs = [run for run in comparison.runs if run.number == number]
    lanes = [pair.lane for pair in pairs(comparison, number)]
    end = axis_end(runs)
    sides: dict[Letter, Side] = {"a": comparison.a, "b": comparison.b}
    ordered = sorted(runs, key=lambda run: run.letter)
    return tuple(_side(sides[run.letter], run, lanes, end) for run in ordered)


def axis_end(runs: Sequence[Run]) -> float:
    """Seconds of the axis: a little past the last thing that happened, not to where waiting for rest ended."""
    moments = [
        moment
        for run in runs
        for pod in run.pods
        for moment in (pod.created, pod.scheduled, pod.running, pod.gone)
        if moment is not None
    ]
    return max(moments, default=0.0) * 1.15 + 0.5


def _side(side: Side, run: Run, lanes: Sequence[str], end: float) -> SidePicture:
    pods = {pod.lane: pod for pod in run.pods}
    drawn = tuple(_lane(TOP + LANE * n, lane, pods.get(lane), end) for n, lane in enumerate(lanes))
    axis = TOP + LANE * len(lanes)
    devices = tuple(_device(TOP + LANE * n, device) for n, device in enumerate(run.packing.devices))
    turn = {1: "ran first", 2: "ran second"}.get(run.order, "")
    rest = "came to rest" if run.settled else "did not come to rest"
    return SidePicture(
        letter=side.letter.upper(),
        tenant=side.tenant,
        scheduler=side.scheduler,
        about=f"{turn}, {rest} in {run.seconds:.1f} s",
        lanes=drawn,
        ticks=tuple((round(LABEL + at / 100 * _TRACK, 1), words) for at, words in TimingChart(end, ()).ticks),
        axis=axis,
        height=axis + AXIS,
        devices=devices,
        devices_height=TOP + LANE * len(devices),
        title=f"{side.tenant}: {len(run.pods)} pods over {end:.1f} seconds",
    )


def _lane(y: int, lane: str, pod: PodRun | None, end: float) -> CompareLane:
    if pod is None:
        return CompareLane(y, fit(lane, LABEL - 8), (), None, "no such pod", f"{lane}: no such pod", troubled=True)
    bars = tuple(_bars(pod, end))
    gone = None if pod.gone is None or not pod.evicted else round(_x(pod.gone, end), 1)
    how = state(pod)
    calm = pod.state in ("running", "succeeded")
    words = how if not calm or pod.to_running is None else f"{pod.to_running:.2f} s"
    title = "\n".join([f"{lane} ({pod.workload}), {pod.asked}: {how}", *(bar.title for bar in bars), *pod.devices])
    return CompareLane(y, fit(lane, LABEL - 8), bars, gone, fit(words, WORDS - 8), title, troubled=not calm)


def _bars(pod: PodRun, end: float) -> Iterator[CompareBar]:
    """The parts of a pod's time that there were, one behind the other."""
    last = end if pod.gone is None else pod.gone
    moments = [pod.created, pod.scheduled, pod.running]
    for number, kind in enumerate(("waiting", "starting", "running")):
        begin = moments[number]
        if begin is None:
            return
        following = next((moment for moment in moments[number + 1 :] if moment is not None), last)
        until = min(max(following, begin), end)
        x, width = _x(begin, end), (until - begin) / end * _TRACK
        if number == 0 and width < _LEAST:
            continue  # what took no time is no part of the picture; the moments are in the table
        yield CompareBar(kind, round(x, 1), round(max(width, _LEAST), 1), f"{kind}: {begin:.2f} s to {until:.2f} s")


def _x(moment: float, end: float) -> float:
    return LABEL + min(moment, end) / end * _TRACK


def _device(y: int, device: ComparedGpu) -> DeviceBar:
    total = max(1.0, device.fill + device.others)
    held = ", ".join(device.pods)
    return DeviceBar(
        y=y,
        name=fit(device.title.partition(" (")[0], LABEL - 8),
        own=round(device.fill / total * _TRACK, 1),
        others=round(device.others / total * _TRACK, 1),
        words=fit(f"{device.fill:g}" + (f" + {device.others:g}" if device.others else ""), WORDS - 8),
        title=f"{device.title}: {device.fill:g} held by {held}"
        + (f", {device.others:g} by pods that are not of the workload" if device.others else ""),
    )
