"""Watches the neighbours of a tenant that suffers: are their pods scheduled as fast as before, do running ones stay.

Each neighbour has a stream of small pods, one after the other, for its own scheduler; and all pods that run in its
cluster are watched. Everything is seen by watches, with the time at which it arrived here.
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
from tests.e2e.noisy_neighbour.latency import BEFORE, Finding, Sample, VigilReport
from tests.e2e.noisy_neighbour.pod_guard import Guard

if TYPE_CHECKING:
    from lab.workloads.namespace import WorkloadNamespace

MARK = "kailab.dev/vigil"
"""Label of the small pods."""

LIMIT = 45.0
"""Seconds that a small pod is given; one that does not run by then is counted as missed."""

PAUSE = 0.5
"""Seconds between two small pods of a neighbour."""

FIRST_SECONDS = 60.0
SETTLE_SECONDS = 180.0

Json = dict[str, Any]


@dataclass(frozen=True)
class Neighbour:
    """A cluster whose users must not notice anything.

    Args:
        name: in figures: ``host``, or the tenant's.
        workloads: where the small pods go, on the host or in that tenant.
        scheduler: schedulerName of the small pods; None is the cluster's default scheduler.
        queue: their KAI queue; None without KAI.
        ignore: namespaces of this cluster that belong to whoever suffers.
        pods: further pods that run in ``workloads`` from the beginning, to be watched.
    """

    name: str
    workloads: WorkloadNamespace
    scheduler: str | None
    queue: str | None
    ignore: frozenset[str] = frozenset()
    pods: tuple[Json, ...] = ()


@dataclass
class _Awaited:
    """A small pod under way; ``scheduled`` and ``running`` in seconds of the clock."""

    namespace: str
    name: str
    scheduled: float | None = None
    running: float | None = None

    def see(self, pod: PodView, now: float) -> None:
        """Note how far it is, if it is this one."""
        if (pod.namespace, pod.name) != (self.namespace, self.name):
            return
        if pod.node and self.scheduled is None:
            self.scheduled = now
        if pod.ready and self.running is None:
            self.running = now


class Vigil:
    """A context manager: the small pods come and go from its start to its end.

    Args:
        neighbours: whom to watch.
        limit: seconds that a small pod is given.
        pause: seconds between two of them.
        clock: seconds.
        feed: makes what follows the neighbours; tests pass a script.

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
        self._loop = EventLoop(feed(sources), self._hear, "vigil")
        self._guards = {one.name: Guard(one.ignore, MARK) for one in self._neighbours}
        self._awaited: dict[str, _Awaited] = {}
        self._watched: dict[str, int] = {}
        self._samples: list[Sample] = []
        self._findings: list[Finding] = []
        self._gaps: list[str] = []
        self._phase = BEFORE
        self._began = clock()
        self._change = self._loop.changed
        self._stack = ExitStack()

    def __enter__(self) -> Vigil:
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
                self._watched = {name: guard.fix() for name, guard in self._guards.items()}
            self._began = self._clock()
            for one in self._neighbours:
                stack.enter_context(Background(functools.partial(self._probe, one), f"vigil {one.name}"))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.stop()
        self._stack.__exit__(kind, error, trace)

    def begin(self, phase: str) -> None:
        """Small pods that are created from now on belong to this phase."""
        with self._change:
            self._phase = phase

    def gather(self, count: int) -> None:
        """Wait until each neighbour has so many more small pods of this phase that ran, or did not in time.

        Raises:
            WaitTimeout: the watching itself came to a standstill.
            LabError: it cannot go on.
        """
        with self._change:
            wanted = {one.name: self._taken(one.name) + count for one in self._neighbours}
        seconds = (count + 1) * (self._limit + self._pause) + FIRST_SECONDS
        what = f"{count} more small pods of each neighbour ({self._phase})"
        self._wait(lambda: all(self._taken(name) >= number for name, number in wanted.items()), seconds, what)

    def report(self) -> VigilReport:
        """What was seen so far."""
        with self._change:
            return VigilReport(
                self._limit, dict(self._watched), tuple(self._samples), tuple(self._findings), tuple(self._gaps)
            )

    def _taken(self, name: str) -> int:
        return sum((one.neighbour, one.phase) == (name, self._phase) for one in self._samples)

    def _wait(self, until: Callable[[], bool], seconds: float, what: str) -> None:
        if not self._loop.wait_for(until, seconds):
            raise WaitTimeout(
                f"{what}: not within {seconds:g} s",
                evidence=self._gaps[-5:],
                fix="see whether the neighbours' APIs answer",
            )

    def _hear(self, news: InformerEvent) -> None:
        now = self._clock()
        if trouble := news.trouble or news.refused:
            self._gaps.append(f"{now - self._began:.1f} s, {news.source}: {trouble}")
        for pod, what in self._guards[news.source].hear(news.changes):
            self._findings.append(Finding(news.source, self._phase, pod, what, round(now - self._began, 2)))
        if awaited := self._awaited.get(news.source):
            for kind, obj in news.changes:
                if kind != "DELETED":
                    awaited.see(PodView.of(obj), now)

    def _probe(self, one: Neighbour, stopping: threading.Event) -> None:
        """One small pod after the other."""
        try:
            for number in itertools.count(1):
                self._once(one, f"small-{number}")
                if self._loop.stopping.wait(self._pause):
                    return
        except Exception as error:  # noqa: BLE001 - raised by ``_wait``
            self._loop.fail(error)

    def _once(self, one: Neighbour, name: str) -> None:
        workloads, pod = one.workloads, brief(cpu_pod(name, queue=one.queue, scheduler=one.scheduler))
        pod["metadata"].setdefault("labels", {})[MARK] = "small"
        awaited = _Awaited(workloads.namespace, name)
        with self._change:
            self._awaited[one.name], phase = awaited, self._phase
        began, trouble = self._clock(), ""
        try:
            workloads.submit(pod)
        except LabError as error:
            trouble = error.what
        else:
            with self._change:
                self._change.wait_for(lambda: awaited.running is not None or self._loop.stopping.is_set(), self._limit)
        if self._loop.stopping.is_set() and awaited.running is None:
            return
        sample = Sample(one.name, phase, _since(began, awaited.scheduled), _since(began, awaited.running), trouble)
        with self._change:
            self._samples.append(sample)
            self._change.notify_all()
        with contextlib.suppress(LabError):  # one that stays is taken away with its namespace
            workloads.cluster.delete("Pod", name, workloads.namespace, grace=0)


def _since(began: float, then: float | None) -> float | None:
    return None if then is None else max(0.0, then - began)
