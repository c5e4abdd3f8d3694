"""Records one run by the watches of a tenant and of the host, with local arrival times."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType

from lab.compare.recording import HOST, TENANT, Created, EvictSeen, GroupSeen, PodSeen, Recording, Settling, evictions
from lab.errors import WaitTimeout
from lab.kube.informers import EventLoop, InformerEvent, Informers, InformerSource
from lab.objects.fields import Obj, parts
from lab.objects.isolation_labels import tenant_namespace
from lab.objects.kai import PodGroupView
from lab.snapshot.pod_info import PodInfo
from lab.workloads.namespace import WorkloadNamespace

_KINDS = ("Pod", "PodGroup", "Event")
_LIST_SECONDS = 30.0


class ComparisonRecorder:
    """A context manager that follows a tenant's workload namespace from both sides."""

    def __init__(self, workloads: WorkloadNamespace) -> None:
        self._workloads = workloads
        self._began = time.monotonic()
        sources = [InformerSource(TENANT, workloads.cluster, _KINDS), InformerSource(HOST, workloads.host, _KINDS)]
        self._loop = EventLoop(Informers(sources), self._note, f"record {workloads.tenant}")
        self._created: list[Created] = []
        self._pods: list[PodSeen] = []
        self._groups: list[GroupSeen] = []
        self._evictions: list[EvictSeen] = []
        self._troubles: list[str] = []
        self._settling = Settling()

    def __enter__(self) -> ComparisonRecorder:
        with ExitStack() as stack:
            stack.enter_context(self._loop)
            if not self._loop.wait_for(lambda: {(TENANT, "Pod"), (HOST, "Pod")} <= self._loop.listed, _LIST_SECONDS):
                what = f"pods of tenant {self._workloads.tenant} and of the host were not listed"
                raise WaitTimeout(f"{what} within {_LIST_SECONDS:g} s", evidence=self._troubles, fix="kailab status")
            stack.pop_all()
        self._began = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.__exit__(kind, error, trace)

    def sent(self, workload: str) -> None:
        """Record that the request to create an object is sent now."""
        with self._loop.changed:
            self._created.append(Created(self._now(), workload))

    def settle(self, expected: int, deadline: float) -> bool:
        """Wait until ``expected`` pods were seen and all are settled; False ``deadline`` seconds after the beginning.

        Raises ApiFailed and Interrupted of the watches.
        """
        with self._loop.changed:
            while True:
                self._loop.check()
                now = self._now()
                calm = self._settling.calm(expected)
                wake = deadline if calm is None else min(deadline, self._settling.changed + calm)
                if now >= wake:
                    return calm is not None and now >= self._settling.changed + calm
                self._loop.changed.wait(wake - now)

    def recording(self, settled: bool) -> Recording:
        """Everything recorded so far."""
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
        return time.monotonic() - self._began

    def _note(self, item: InformerEvent) -> None:
        if item.trouble or item.refused:
            self._troubles.append(f"{item.kind} of the {item.source}: {item.refused or item.trouble}")
        for change, obj in item.changes:
            if item.kind == "Pod":
                self._pod(item.source, obj, gone=change == "DELETED")
            elif change != "DELETED" and self._may_own(item.source, obj):
                if item.kind == "PodGroup":
                    self._groups.append(GroupSeen(self._now(), item.source, PodGroupView.of(obj)))
                else:
                    self._evictions += evictions(self._now(), obj)

    def _pod(self, side: str, obj: Obj, *, gone: bool) -> None:
        pod = PodInfo.of(obj)
        if pod.synced.namespace != self._workloads.namespace or (side == HOST and pod.tenant != self._workloads.tenant):
            return
        uid = pod.view.uid if side == TENANT else pod.synced.uid
        seen = PodSeen(self._now(), side, uid, pod, gone)
        self._pods.append(seen)
        if side == TENANT:
            self._settling.note(seen)

    def _may_own(self, side: str, obj: Obj) -> bool:
        """Whether an object's namespace is the workload's."""
        space = parts(obj)[0].get("namespace", "")
        return bool(
            space == (self._workloads.namespace if side == TENANT else tenant_namespace(self._workloads.tenant))
        )
