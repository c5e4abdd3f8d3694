"""Records one run: what the watches of a tenant and of the host say of the workload's pods, with local arrival times.

Nothing is asked twice and nobody sleeps: a thread takes the news and stamps it, whoever waits is woken by it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType

from lab.compare.recording import HOST, TENANT, Created, EvictSeen, GroupSeen, PodSeen, Recording, evictions
from lab.compare.settling import SettledPod
from lab.config.labels import tenant_namespace
from lab.errors import WaitTimeout
from lab.kube.informers import EventLoop, InformerEvent, Informers, InformerSource
from lab.objects.fields import Obj, parts
from lab.objects.kai import PodGroupView
from lab.snapshot.pod_info import PodInfo
from lab.workloads.namespace import WorkloadNamespace

_KINDS = ("Pod", "PodGroup", "Event")
_LIST_SECONDS = 30.0


class ComparisonRecorder:
    """A context manager that follows a place from both sides.

    Args:
        place: in a tenant.
        clock: seconds, monotonic.
    """

    def __init__(self, place: WorkloadNamespace, clock: Callable[[], float] = time.monotonic) -> None:
        self._place = place
        self._clock = clock
        self._began = clock()
        sources = [InformerSource(TENANT, place.cluster, _KINDS), InformerSource(HOST, place.host, _KINDS)]
        self._loop = EventLoop(Informers(sources), self._note, f"record {place.tenant}")
        self._created: list[Created] = []
        self._pods: list[PodSeen] = []
        self._groups: list[GroupSeen] = []
        self._evictions: list[EvictSeen] = []
        self._troubles: list[str] = []
        self._standing = SettledPod()

    def __enter__(self) -> ComparisonRecorder:
        with ExitStack() as stack:
            stack.enter_context(self._loop)
            if not self._loop.wait_for(lambda: {(TENANT, "Pod"), (HOST, "Pod")} <= self._loop.listed, _LIST_SECONDS):
                what = f"the pods of tenant {self._place.tenant} and of the host were not listed"
                raise WaitTimeout(f"{what} within {_LIST_SECONDS:g} s", evidence=self._troubles, fix="lab status")
            stack.pop_all()
        self._began = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.__exit__(kind, error, trace)

    def sent(self, workload: str) -> None:
        """The creation of an object is sent now."""
        with self._loop.changed:
            self._created.append(Created(self._now(), workload))

    def rest(self, expected: int, deadline: float) -> bool:
        """Wait until so many pods were seen and all have come to rest; False when time was up first.

        Args:
            expected: how many pods there must have been.
            deadline: seconds after the beginning of the run.

        Raises:
            ApiFailed, Interrupted: what following met.
        """
        with self._loop.changed:
            while True:
                self._loop.check()
                now = self._now()
                calm = self._standing.calm(expected)
                wake = deadline if calm is None else min(deadline, self._standing.moved + calm)
                if now >= wake:
                    return calm is not None and now >= self._standing.moved + calm
                self._loop.changed.wait(wake - now)

    def recording(self, settled: bool) -> Recording:
        """Everything so far."""
        with self._loop.changed:
            return Recording(
                self._now(),
                settled,
                tuple(self._created),
                tuple(self._pods),
                tuple(self._groups),
                tuple(self._evictions),
                tuple(dict.fromkeys(self._troubles)),
            )

    def _now(self) -> float:
        return self._clock() - self._began

    def _note(self, item: InformerEvent) -> None:
        if item.trouble or item.refused:
            self._troubles.append(f"{item.kind} of the {item.source}: {item.refused or item.trouble}")
        for change, obj in item.changes:
            if item.kind == "Pod":
                self._pod(item.source, obj, gone=change == "DELETED")
            elif item.kind == "PodGroup" and change != "DELETED":
                self._group(item.source, obj)
            elif item.kind == "Event" and change != "DELETED" and self._here(item.source, obj):
                self._evictions += evictions(self._now(), obj)

    def _pod(self, side: str, obj: Obj, *, gone: bool) -> None:
        pod = PodInfo.of(obj)
        mine = pod.synced.namespace == self._place.namespace
        if side == HOST:
            mine = mine and pod.tenant == self._place.tenant
        if not mine:
            return
        uid = pod.view.uid if side == TENANT else pod.synced.uid
        seen = PodSeen(self._now(), side, uid, pod, gone)
        self._pods.append(seen)
        if side == TENANT:
            self._standing.note(seen)

    def _group(self, side: str, obj: Obj) -> None:
        if self._here(side, obj):
            self._groups.append(GroupSeen(self._now(), side, PodGroupView.of(obj)))

    def _here(self, side: str, obj: Obj) -> bool:
        """Whether an object can belong to the workload by its namespace."""
        space = parts(obj)[0].get("namespace", "")
        return bool(space == (self._place.namespace if side == TENANT else tenant_namespace(self._place.tenant)))
