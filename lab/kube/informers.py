"""List and watch several kinds of one or more clusters; all events arrive in one queue.

Reflectors feed ``Informers``; a ``Cache`` keeps the objects that its events show, and an ``EventLoop`` handles the
events in a thread.

Changes of one kind keep the order of the API server. Each kind has its own watch, so that changes of two kinds may
arrive in another order.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from lab.errors import ApiFailed
from lab.kube.api import Api
from lab.kube.errors import Unreachable
from lab.kube.reflector import Change, Reflector
from lab.kube.rest import Json
from lab.kube.rest_mapper import Resource
from lab.kube.store import Store
from lab.tools.background import Background

ABSENT_SECONDS = 5.0
"""Interval at which to check whether the CRD of a missing kind was installed."""

TAKE_SECONDS = 0.5

NOT_READ = "has not been read yet"
ABSENT = "the server does not have it"


@dataclass(frozen=True)
class InformerSource:
    """The kinds to watch in one cluster."""

    name: str
    """Part of every event."""
    cluster: Api
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class InformerEvent:
    """An event about one kind of one source; an empty one means that the watch works again."""

    source: str
    kind: str
    changes: tuple[Change, ...] = ()
    """Several changes happened since the last list, and apply in one step."""
    listed: bool = False
    """The first list: from here on the set is complete."""
    absent: bool = False
    """The server does not have the kind (yet)."""
    trouble: str = ""
    """The error that broke the watch, which is retried; changes until then arrive in one step."""
    refused: str = ""
    """The reason why the kind is not watched."""
    error: ApiFailed | None = field(default=None, compare=False)
    """The error behind ``refused``."""


class Informers:
    """A context manager; ``take`` returns the events as they arrive. The clusters stay open."""

    def __init__(self, sources: Iterable[InformerSource]) -> None:
        self._queue: queue.SimpleQueue[InformerEvent | Exception] = queue.SimpleQueue()
        self._threads = [
            Background(functools.partial(self._follow, source, kind), f"informer {source.name} {kind}", join=1.0)
            for source in sources
            for kind in source.kinds
        ]

    def __enter__(self) -> Informers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.stopping.set()
        for thread in self._threads:
            thread.stop()

    def take(self, seconds: float) -> InformerEvent | None:
        """The next event, or None after ``seconds``. Raises Interrupted."""
        with contextlib.suppress(queue.Empty):
            item = self._queue.get(timeout=max(0.0, seconds)) if seconds > 0 else self._queue.get_nowait()
            if isinstance(item, Exception):
                raise item
            return item
        return None

    def _follow(self, source: InformerSource, kind: str, stopping: threading.Event) -> None:
        try:
            resource = source.cluster.kinds.named(kind)
            if self._until_served(source, resource, stopping):
                self._pump(source, kind, resource, stopping)
        except ApiFailed as error:
            self._queue.put(InformerEvent(source.name, kind, refused=error.what, error=error))
        except Exception as error:  # noqa: BLE001 - raised in the thread that takes
            if not stopping.is_set():
                self._queue.put(error)

    def _until_served(self, source: InformerSource, resource: Resource, stopping: threading.Event) -> bool:
        """Wait for the kind's CRD; False when stopped before."""
        reported = False
        while _has_crd(resource) and not stopping.is_set():
            try:
                _, version = source.cluster.calls.collection(resource, None, {"limit": "1"})
            except Unreachable as error:
                if error.tls:
                    raise
                self._queue.put(InformerEvent(source.name, resource.kind, trouble=error.what))
            else:
                if version:
                    break
                if not reported:
                    self._queue.put(InformerEvent(source.name, resource.kind, absent=True))
                    reported = True
            stopping.wait(ABSENT_SECONDS)
            source.cluster.calls.check_cancel()
        return not stopping.is_set()

    def _pump(self, source: InformerSource, kind: str, resource: Resource, stopping: threading.Event) -> None:
        listed, reported = False, ""
        with Reflector(source.cluster.calls, resource, None, {}) as reflector:
            while not stopping.is_set():
                batch = reflector.take(TAKE_SECONDS)
                if batch is not None:
                    self._queue.put(InformerEvent(source.name, kind, tuple(batch), listed=not listed))
                    listed = True
                trouble = str(reflector.trouble).splitlines()[0] if reflector.trouble else ""
                if trouble != reported:
                    reported = trouble
                    if trouble or listed:
                        self._queue.put(InformerEvent(source.name, kind, trouble=trouble))


class Cache:
    """The objects of some kinds of one source, from its events; ``view`` converts them. Not thread-safe."""

    def __init__(self, kinds: Iterable[str], view: Callable[[Json], Json]) -> None:
        self.kinds = tuple(kinds)
        self._stores = {kind: Store(view) for kind in self.kinds}
        self._doubts = dict.fromkeys(self.kinds, NOT_READ)
        self._answered: set[str] = set()

    def update(self, event: InformerEvent) -> list[Change]:
        """Apply an event; returns its changes with converted objects."""
        kind = event.kind
        if not event.trouble:
            self._answered.add(kind)
        if doubt := event.refused or event.trouble or (ABSENT if event.absent else ""):
            # The objects may be out of date until the watch works again.
            self._doubts[kind] = doubt
            return []
        self._doubts.pop(kind, None)
        changes = []
        for change, obj in event.changes:
            _, kept = self._stores[kind].update((change, obj))
            changes.append((change, obj if kept is None else kept))
        return changes

    def doubt(self, kind: str) -> str:
        """The reason why the objects of a kind are unknown or out of date; empty when they are known."""
        return self._doubts.get(kind, "")

    @property
    def synced(self) -> bool:
        """Whether the server has answered for every kind, even if it does not have it."""
        return self._answered >= self._stores.keys()

    def objects(self, kind: str) -> tuple[Json, ...]:
        """The last known objects of a kind."""
        return tuple(self._stores[kind])


class EventLoop(Background):
    """A context manager that handles each event in a thread, and wakes those who wait for its effects.

    ``handle`` is called with each event under ``changed``; hold it to read what ``handle`` writes. An exception that
    ends the thread is raised in ``wait_for``, or else at the end.
    """

    def __init__(self, informers: Informers, handle: Callable[[InformerEvent], None], name: str) -> None:
        super().__init__(self._handle_all, name)
        self.changed = threading.Condition()
        self.listed: set[tuple[str, str]] = set()
        """Source and kind of the complete sets."""
        self._informers = informers
        self._handle = handle

    def start(self) -> None:
        self._informers.__enter__()
        super().start()

    def stop(self) -> None:
        """Handle all queued events, and end."""
        with self.changed:
            self.stopping.set()
            self.changed.notify_all()
        super().stop()
        self._informers.__exit__()

    def wait_for(self, predicate: Callable[[], bool], seconds: float) -> bool:
        """Wait until the predicate holds; returns whether it does. It is called after each event, under ``changed``."""
        with self.changed:
            holds = self.changed.wait_for(lambda: self.error is not None or predicate(), seconds)
            self.check()
            return holds

    def fail(self, error: Exception) -> None:
        """Raise an error in every ``wait_for``."""
        with self.changed:
            self.error = self.error or error
            self.changed.notify_all()

    def _handle_all(self, stopping: threading.Event) -> None:
        try:
            while not stopping.is_set():
                self._take(TAKE_SECONDS)
            while self._take(0.0):
                pass
        except Exception as error:  # noqa: BLE001 - raised in wait_for
            self.fail(error)

    def _take(self, seconds: float) -> bool:
        event = self._informers.take(seconds)
        if event is None:
            return False
        with self.changed:
            if event.listed:
                self.listed.add((event.source, event.kind))
            self._handle(event)
            self.changed.notify_all()
        return True


def _has_crd(resource: Resource) -> bool:
    """Whether the kind comes with a CRD, whose group has a dot; Kubernetes' own kinds are always served."""
    return "." in resource.group and not resource.group.endswith(".k8s.io")
