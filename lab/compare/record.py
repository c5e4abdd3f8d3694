"""Records one run: what the watches of a tenant and of the host say of the workload's pods, with local arrival times.

Nothing is asked twice and nobody sleeps: a thread takes the news and stamps it, whoever waits is woken by it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from lab.compare.recording import HOST, TENANT, Created, EvictSeen, GroupSeen, PodSeen, Recording, evictions
from lab.compare.settling import SettledPod
from lab.config.labels import tenant_namespace
from lab.errors import WaitTimeout
from lab.gpu.map.pods import gpu_pod
from lab.kube.informers import InformerEvent, Informers, InformerSource
from lab.objects.fields import Obj, annotations_of, parts
from lab.objects.views import PodGroupView
from lab.workloads.namespace import WorkloadNamespace

UID_ANNOTATION = "vcluster.loft.sh/object-uid"
"""On a pod of the host: the UID of the tenant's pod (vCluster 0.36.1, pkg/util/translate/types.go)."""

_KINDS = ("Pod", "PodGroup", "Event")
_TAKE_SECONDS = 0.5
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
        self._streams = Informers(
            [InformerSource(TENANT, place.cluster, _KINDS), InformerSource(HOST, place.host, _KINDS)]
        )
        self._news = threading.Condition()
        self._stop = threading.Event()
        self._failed: Exception | None = None
        self._listed: set[tuple[str, str]] = set()
        self._created: list[Created] = []
        self._pods: list[PodSeen] = []
        self._groups: list[GroupSeen] = []
        self._evictions: list[EvictSeen] = []
        self._troubles: list[str] = []
        self._standing = SettledPod()
        self._thread = threading.Thread(target=self._run, name=f"record {place.tenant}", daemon=True)

    def __enter__(self) -> ComparisonRecorder:
        self._streams.__enter__()
        self._thread.start()
        try:
            self._until(lambda: {(TENANT, "Pod"), (HOST, "Pod")} <= self._listed, _LIST_SECONDS)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self._began = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(_TAKE_SECONDS * 2)
        self._streams.__exit__(kind, error, trace)

    def sent(self, workload: str) -> None:
        """The creation of an object is sent now."""
        with self._news:
            self._created.append(Created(self._now(), workload))

    def rest(self, expected: int, deadline: float) -> bool:
        """Wait until so many pods were seen and all have come to rest; False when time was up first.

        Args:
            expected: how many pods there must have been.
            deadline: seconds after the beginning of the run.

        Raises:
            ApiFailed, Interrupted: what following met.
        """
        with self._news:
            while True:
                self._raise()
                now = self._now()
                calm = self._standing.calm(expected)
                wake = deadline if calm is None else min(deadline, self._standing.moved + calm)
                if now >= wake:
                    return calm is not None and now >= self._standing.moved + calm
                self._news.wait(wake - now)

    def recording(self, settled: bool) -> Recording:
        """Everything so far."""
        with self._news:
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

    def _until(self, holds: Callable[[], bool], seconds: float) -> None:
        with self._news:
            if not self._news.wait_for(lambda: self._failed is not None or holds(), seconds):
                what = f"the pods of tenant {self._place.tenant} and of the host were not listed within {seconds:g} s"
                raise WaitTimeout(what, evidence=self._troubles, fix="lab status")
            self._raise()

    def _raise(self) -> None:
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if (item := self._streams.take(_TAKE_SECONDS)) is not None:
                    with self._news:
                        self._note(item)
                        self._news.notify_all()
        except Exception as error:  # noqa: BLE001 - handed to the thread that waits
            with self._news:
                self._failed = error
                self._news.notify_all()

    def _note(self, item: InformerEvent) -> None:
        if item.listed:
            self._listed.add((item.source, item.kind))
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
        pod = gpu_pod(obj)
        mine = pod.namespace == self._place.namespace
        if side == HOST:
            mine = mine and pod.tenant == self._place.tenant
        if not mine:
            return
        uid = pod.view.uid if side == TENANT else annotations_of(parts(obj)[0]).get(UID_ANNOTATION, "")
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
