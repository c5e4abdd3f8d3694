"""Follows several kinds of one or more clusters at once; all that happens comes out of one queue.

Changes of one kind come in the order in which the API server made them. Kinds have watches of their own and may
run apart by moments: what compares two kinds must allow for that.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType

from lab.errors import ApiFailed
from lab.kube.api import Api
from lab.kube.errors import Unreachable
from lab.kube.reflector import Change, Reflector
from lab.kube.rest_mapper import Resource

ABSENT_SECONDS = 5.0
"""How often a kind that the server does not have is asked for again: its CRD may come."""

TAKE_SECONDS = 0.5


@dataclass(frozen=True)
class InformerSource:
    """What is followed of one cluster."""

    name: str
    """Comes back with every piece of news."""
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


class Informers:
    """A context manager; ``take`` gives the news as it comes.

    Args:
        sources: what to follow. The clusters stay open.
    """

    def __init__(self, sources: Iterable[InformerSource]) -> None:
        self._queue: queue.SimpleQueue[InformerEvent | Exception] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, args=(source, kind), name=f"stream {source.name} {kind}", daemon=True)
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
        self._stop.set()
        for thread in self._threads:
            thread.join(TAKE_SECONDS * 2)

    def take(self, seconds: float) -> InformerEvent | None:
        """The next piece of news, or None when none came within ``seconds``.

        Raises:
            Interrupted: the run was cancelled.
        """
        with contextlib.suppress(queue.Empty):
            item = self._queue.get(timeout=max(0.0, seconds)) if seconds > 0 else self._queue.get_nowait()
            if isinstance(item, Exception):
                raise item
            return item
        return None

    def _follow(self, source: InformerSource, kind: str) -> None:
        try:
            resource = source.cluster.kinds.named(kind)
            if self._until_served(source, resource):
                self._pump(source, kind, resource)
        except ApiFailed as error:
            self._queue.put(InformerEvent(source.name, kind, refused=error.what))
        except Exception as error:  # noqa: BLE001 - handed to the thread that takes
            if not self._stop.is_set():
                self._queue.put(error)

    def _until_served(self, source: InformerSource, resource: Resource) -> bool:
        """Wait for the kind's CRD; False when stopped before. Kinds of Kubernetes itself are always there."""
        told = False
        while _custom(resource) and not self._stop.is_set():
            try:
                _, version = source.cluster.calls.collection(resource, None, {"limit": "1"})
            except Unreachable as error:
                if error.tls:
                    raise
                self._queue.put(InformerEvent(source.name, resource.kind, trouble=error.what))
                self._pause(source)
                continue
            if version:
                break
            if not told:
                self._queue.put(InformerEvent(source.name, resource.kind, absent=True))
                told = True
            self._pause(source)
        return not self._stop.is_set()

    def _pause(self, source: InformerSource) -> None:
        self._stop.wait(ABSENT_SECONDS)
        source.cluster.calls.check_cancel()

    def _pump(self, source: InformerSource, kind: str, resource: Resource) -> None:
        listed, told = False, ""
        with Reflector(source.cluster.calls, resource, None, {}) as follower:
            while not self._stop.is_set():
                batch = follower.take(TAKE_SECONDS)
                if batch is not None:
                    self._queue.put(InformerEvent(source.name, kind, tuple(batch), listed=not listed))
                    listed = True
                trouble = str(follower.trouble).splitlines()[0] if follower.trouble else ""
                if trouble != told:
                    told = trouble
                    if trouble or listed:
                        self._queue.put(InformerEvent(source.name, kind, trouble=trouble))


def _custom(resource: Resource) -> bool:
    """Whether the kind comes with a CRD; a CRD's group has a dot."""
    return "." in resource.group and not resource.group.endswith(".k8s.io")
