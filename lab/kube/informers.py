"""Follows several kinds of one or more clusters at once; all that happens comes out of one queue.

Reflectors feed ``Informers``; a ``Cache`` keeps what its events show, and an ``EventLoop`` handles them in a thread.

Changes of one kind come in the order in which the API server made them. Kinds have watches of their own and may
run apart by moments: what compares two kinds must allow for that.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType

from lab.errors import ApiFailed
from lab.kube.api import Api
from lab.kube.errors import Unreachable
from lab.kube.reflector import Change, Reflector
from lab.kube.rest import Json
from lab.kube.rest_mapper import Resource
from lab.kube.store import Store
from lab.tools.background import Background

ABSENT_SECONDS = 5.0
"""How often a kind that the server does not have is asked for again: its CRD may come."""

TAKE_SECONDS = 0.5

NOT_READ = "has not been read yet"
ABSENT = "the server does not have it"


@dataclass(frozen=True)
class InformerSource:
    """What is followed of one cluster."""

    name: str
    """Comes back with every event."""
    cluster: Api
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class InformerEvent:
    """Something about one kind of one source; without any change it says that the watch goes on after trouble."""

    source: str
    kind: str
    changes: tuple[Change, ...] = ()
    """Several of them happened since the last list: the set goes from one state to the next in one step."""
    listed: bool = False
    """The set is whole from here on: this is its first list."""
    absent: bool = False
    """The server does not have the kind (yet)."""
    trouble: str = ""
    """The watch broke off and is taken up again: what happens meanwhile shows as one step."""
    refused: str = ""
    """The kind is not followed, for this reason."""
    error: ApiFailed | None = field(default=None, compare=False)
    """The refusal itself."""


class Informers:
    """A context manager; ``take`` gives the events as they come.

    Args:
        sources: what to follow. The clusters stay open.
    """

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for thread in self._threads:
            thread.stopping.set()
        for thread in self._threads:
            thread.stop()

    def take(self, seconds: float) -> InformerEvent | None:
        """The next event, or None when none came within ``seconds``.

        Raises:
            Interrupted: the run was cancelled.
        """
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
        except Exception as error:  # noqa: BLE001 - handed to the thread that takes
            if not stopping.is_set():
                self._queue.put(error)

    def _until_served(self, source: InformerSource, resource: Resource, stopping: threading.Event) -> bool:
        """Wait for the kind's CRD; False when stopped before. Kinds of Kubernetes itself are always there."""
        told = False
        while _custom(resource) and not stopping.is_set():
            try:
                _, version = source.cluster.calls.collection(resource, None, {"limit": "1"})
            except Unreachable as error:
                if error.tls:
                    raise
                self._queue.put(InformerEvent(source.name, resource.kind, trouble=error.what))
                _pause(source, stopping)
                continue
            if version:
                break
            if not told:
                self._queue.put(InformerEvent(source.name, resource.kind, absent=True))
                told = True
            _pause(source, stopping)
        return not stopping.is_set()

    def _pump(self, source: InformerSource, kind: str, resource: Resource, stopping: threading.Event) -> None:
        listed, told = False, ""
        with Reflector(source.cluster.calls, resource, None, {}) as follower:
            while not stopping.is_set():
                batch = follower.take(TAKE_SECONDS)
                if batch is not None:
                    self._queue.put(InformerEvent(source.name, kind, tuple(batch), listed=not listed))
                    listed = True
                trouble = str(follower.trouble).splitlines()[0] if follower.trouble else ""
                if trouble != told:
                    told = trouble
                    if trouble or listed:
                        self._queue.put(InformerEvent(source.name, kind, trouble=trouble))


class Cache:
    """The objects of some kinds of one source, as its events show them. Not thread-safe.

    Args:
        kinds: which kinds the events are about.
        view: what is kept of an object.
    """

    def __init__(self, kinds: Iterable[str], view: Callable[[Json], Json]) -> None:
        self._stores = {kind: Store(view) for kind in kinds}
        self._doubts = dict.fromkeys(self._stores, NOT_READ)
        self._answered: set[str] = set()
        self._tuples: dict[str, tuple[Json, ...]] = {}

    def update(self, event: InformerEvent) -> list[Change]:
        """Take an event in; its changes, with what is kept of the objects that are there."""
        kind = event.kind
        if not event.trouble:
            self._answered.add(kind)
        if doubt := event.refused or event.trouble or (ABSENT if event.absent else ""):
            # After trouble what is known grows old, until the watch goes on.
            self._doubts[kind] = doubt
            return []
        self._doubts.pop(kind, None)
        self._tuples.pop(kind, None)
        changes = []
        for change, obj in event.changes:
            _, kept = self._stores[kind].update((change, obj))
            changes.append((change, obj if kept is None else kept))
        return changes

    def doubt(self, kind: str) -> str:
        """Why the objects of a kind are not known, or may be old; empty when they are known."""
        return self._doubts.get(kind, "")

    @property
    def synced(self) -> bool:
        """Whether the server has answered on every kind, be it that it does not have it."""
        return self._answered >= self._stores.keys()

    def objects(self, kind: str) -> tuple[Json, ...]:
        """The objects of a kind as they were last known."""
        if kind not in self._tuples:
            self._tuples[kind] = tuple(self._stores[kind])
        return self._tuples[kind]


class EventLoop(Background):
    """A context manager: handles each event in a thread of its own, and wakes whoever waits for what came of it.

    What ends the thread is raised where somebody waits, else at the end.

    Args:
        informers: where the events come from; started and stopped along with the thread.
        handle: called with each event, under ``changed``, which has to be held to read what it writes.
        name: of the thread.
    """

    def __init__(self, informers: Informers, handle: Callable[[InformerEvent], None], name: str) -> None:
        super().__init__(self._handle_all, name)
        self.changed = threading.Condition()
        self.listed: set[tuple[str, str]] = set()
        """Source and kind of the sets that are whole."""
        self._informers = informers
        self._handle = handle

    def start(self) -> None:
        self._informers.__enter__()
        super().start()

    def stop(self) -> None:
        """Handle what has come, and end."""
        with self.changed:
            self.stopping.set()
            self.changed.notify_all()
        super().stop()
        self._informers.__exit__(None, None, None)

    def wait_for(self, predicate: Callable[[], bool], seconds: float) -> bool:
        """Wait until the predicate holds; whether it does. It is asked after each event, under ``changed``."""
        with self.changed:
            holds = self.changed.wait_for(lambda: self.error is not None or predicate(), seconds)
            self.check()
            return holds

    def fail(self, error: Exception) -> None:
        """Raise an error wherever somebody waits."""
        with self.changed:
            self.error = self.error or error
            self.changed.notify_all()

    def _handle_all(self, stopping: threading.Event) -> None:
        try:
            while not stopping.is_set():
                self._take(TAKE_SECONDS)
            while self._take(0.0):
                pass
        except Exception as error:  # noqa: BLE001 - raised where somebody waits
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


def _pause(source: InformerSource, stopping: threading.Event) -> None:
    stopping.wait(ABSENT_SECONDS)
    source.cluster.calls.check_cancel()


def _custom(resource: Resource) -> bool:
    """Whether the kind comes with a CRD; a CRD's group has a dot."""
    return "." in resource.group and not resource.group.endswith(".k8s.io")
