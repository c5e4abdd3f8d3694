"""Monitors the neighbours of a faulty tenant: scheduling latency of small pods, and changes of running pods.

Each neighbour gets a sequence of small pods, one at a time, for its own scheduler; all pods that run in its cluster are
watched. Times are those at which watch events arrive here.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lab.errors import LabError, WaitTimeout
from lab.kube.informers import EventLoop, InformerEvent, Informers, InformerSource
from lab.objects.views import PodView
from lab.tools.background import Background
from lab.workloads.modifiers import brief
from lab.workloads.pods import cpu_pod

from .latency import BEFORE, Finding, MonitorReport, Sample
from .pod_guard import PodGuard

if TYPE_CHECKING:
    from lab.workloads.namespace import WorkloadNamespace

MARK = "kailab.dev/monitor"
"""Label of the small pods."""

LIMIT = 45.0
"""Seconds within which a small pod must run; otherwise it counts as missed."""

PAUSE = 0.5
"""Seconds between two small pods of a neighbour."""

FIRST_SECONDS = 60.0
SETTLE_SECONDS = 180.0

Json = dict[str, Any]


@dataclass(frozen=True)
class Neighbour:
    """A cluster whose users must not notice the fault.

    Args:
        name: in figures: ``host``, or the tenant's name.
        workloads: namespace of the small pods, on the host or in that tenant.
        scheduler: schedulerName of the small pods; None for the cluster's default scheduler.
        queue: their KAI queue; None without KAI.
        ignore: namespaces of this cluster that belong to the faulty tenant.
        pods: further pods to run in ``workloads`` from the start, and to watch.
    """

    name: str
    workloads: WorkloadNamespace
    scheduler: str | None
    queue: str | None
    ignore: frozenset[str] = frozenset()
    pods: tuple[Json, ...] = ()


@dataclass
class _SmallPod:
    """A small pod in progress; ``scheduled`` and ``running`` are times of the clock."""

    namespace: str
    name: str
    scheduled: float | None = None
    running: float | None = None

    def update(self, pod: PodView, now: float) -> None:
        """Record the stages that ``pod`` reached, if it is this pod."""
        if (pod.namespace, pod.name) != (self.namespace, self.name):
            return
        if pod.node and self.scheduled is None:
            self.scheduled = now
        if pod.ready and self.running is None:
            self.running = now


class NeighbourMonitor:
    """A context manager that creates and deletes small pods of each neighbour while it is active.

    Args:
        neighbours: the clusters to monitor.
        limit: seconds within which a small pod must run.
        pause: seconds between two of them.
        clock: returns seconds.
        feed: creates the informers of the neighbours; tests pass a script.

    Raises:
        WaitTimeout: at the start, when a neighbour's own pods do not run or its pods cannot be listed.
    """

    def __init__(
        self,
        neighbours: Iterable[Neighbour],
        *,
        limit: float = LIMIT,
        pause: float = PAUSE,
        clock: Callable[[], float] = time.monotonic,
        feed: Callable[[Iterable[InformerSource]], Informers] = Informers,
    ) -> None:
        self._neighbours = tuple(neighbours)
        self._limit = limit
        self._pause = pause
        self._clock = clock
        sources = [InformerSource(one.name, one.workloads.cluster, ("Pod",)) for one in self._neighbours]
        self._loop = EventLoop(feed(sources), self._on_event, "neighbour monitor")
        self._guards = {one.name: PodGuard(one.ignore, MARK) for one in self._neighbours}
        self._current: dict[str, _SmallPod] = {}
        self._watched: dict[str, int] = {}
        self._samples: list[Sample] = []
        self._findings: list[Finding] = []
        self._gaps: list[str] = []
        self._phase = BEFORE
        self._started = clock()
        self._change = self._loop.changed
        self._stack = ExitStack()

    def __enter__(self) -> NeighbourMonitor:
        with ExitStack() as stack:
            for one in self._neighbours:
                stack.callback(one.workloads.clear)
            # Pod by pod: before 0.9.16, KAI may lose the GPU of a fraction when another pod is bound at the same time.
            for pods in itertools.zip_longest(*(one.pods for one in self._neighbours)):
                wave = [(one.workloads, pod) for one, pod in zip(self._neighbours, pods, strict=True) if pod]
                for workloads, pod in wave:
                    workloads.submit(pod)
                for workloads, pod in wave:
                    workloads.running(pod["metadata"]["name"], timeout=SETTLE_SECONDS)
            stack.enter_context(self._loop)
            self._wait(
                lambda: len(self._loop.listed) == len(self._neighbours),
                FIRST_SECONDS,
                "the neighbours' pods are listed",
            )
            with self._change:
                self._watched = {name: guard.start() for name, guard in self._guards.items()}
            self._started = self._clock()
            for one in self._neighbours:
                work = functools.partial(self._create_small_pods, one)
                stack.enter_context(Background(work, f"small pods of {one.name}"))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.stop()
        self._stack.__exit__(kind, error, trace)

    def begin(self, phase: str) -> None:
        """Assign small pods that are created from now on to this phase."""
        with self._change:
            self._phase = phase

    def gather(self, count: int) -> None:
        """Wait until each neighbour has ``count`` more samples of this phase, missed pods included.

        Raises:
            WaitTimeout: the samples do not arrive in time.
            LabError: the monitor failed.
        """
        with self._change:
            wanted = {one.name: self._sampled(one.name) + count for one in self._neighbours}
        seconds = (count + 1) * (self._limit + self._pause) + FIRST_SECONDS
        what = f"{count} more small pods of each neighbour ({self._phase})"
        self._wait(lambda: all(self._sampled(name) >= number for name, number in wanted.items()), seconds, what)

    def report(self) -> MonitorReport:
        """Return the observations so far."""
        with self._change:
            return MonitorReport(
                self._limit, dict(self._watched), tuple(self._samples), tuple(self._findings), tuple(self._gaps)
            )

    def _sampled(self, name: str) -> int:
        return sum((one.neighbour, one.phase) == (name, self._phase) for one in self._samples)

    def _wait(self, until: Callable[[], bool], seconds: float, what: str) -> None:
        if not self._loop.wait_for(until, seconds):
            raise WaitTimeout(
                f"{what}: not within {seconds:g} s",
                evidence=self._gaps[-5:],
                fix="check that the neighbours' API servers answer",
            )

    def _on_event(self, event: InformerEvent) -> None:
        now = self._clock()
        if trouble := event.trouble or event.refused:
            self._gaps.append(f"{now - self._started:.1f} s, {event.source}: {trouble}")
        for pod, change in self._guards[event.source].update(event.changes):
            self._findings.append(Finding(event.source, self._phase, pod, change, round(now - self._started, 2)))
        if current := self._current.get(event.source):
            for kind, obj in event.changes:
                if kind != "DELETED":
                    current.update(PodView.of(obj), now)

    def _create_small_pods(self, one: Neighbour, stopping: threading.Event) -> None:
        """Create one small pod after another."""
        try:
            for number in itertools.count(1):
                self._create_small_pod(one, f"small-{number}")
                if self._loop.stopping.wait(self._pause):
                    return
        except Exception as error:  # noqa: BLE001 - raised by ``_wait``
            self._loop.fail(error)

    def _create_small_pod(self, one: Neighbour, name: str) -> None:
        workloads, pod = one.workloads, brief(cpu_pod(name, queue=one.queue, scheduler=one.scheduler))
        pod["metadata"].setdefault("labels", {})[MARK] = "small"
        current = _SmallPod(workloads.namespace, name)
        with self._change:
            self._current[one.name], phase = current, self._phase
        created, trouble = self._clock(), ""
        try:
            workloads.submit(pod)
        except LabError as error:
            trouble = error.what
        else:
            with self._change:
                self._change.wait_for(lambda: current.running is not None or self._loop.stopping.is_set(), self._limit)
        if self._loop.stopping.is_set() and current.running is None:
            return
        sample = Sample(one.name, phase, _since(created, current.scheduled), _since(created, current.running), trouble)
        with self._change:
            self._samples.append(sample)
            self._change.notify_all()
        with contextlib.suppress(LabError):  # the end of its namespace deletes it otherwise
            workloads.cluster.delete("Pod", name, workloads.namespace, grace=0)


def _since(start: float, end: float | None) -> float | None:
    return None if end is None else max(0.0, end - start)
