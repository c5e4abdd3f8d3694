"""List and watch a set of objects, and list again whenever the watch breaks (client-go's Reflector).

A thread reads, so that the caller can time out and cancel on a silent connection.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
from collections.abc import Mapping
from typing import Any

from lab.errors import ApiFailed
from lab.kube.errors import Unreachable
from lab.kube.rest import Json, RestClient
from lab.kube.rest_mapper import Resource
from lab.kube.transport import Reply, TransportError
from lab.tools.background import Background

log = logging.getLogger("lab.kube.wait")

WATCH_SECONDS = 240
"""Duration of one watch request; the next one continues at its resourceVersion."""

PAUSE = 0.5
"""Seconds before listing again after an error."""

Change = tuple[str, Json]
"""ADDED, MODIFIED or DELETED, and the object."""


class BrokenWatchError(Exception):
    """The watch cannot continue; list again."""


def key_of(obj: Mapping[str, Any]) -> tuple[str, str, str]:
    """Namespace, name and uid: a recreated object of the same name is another object."""
    meta = obj.get("metadata", {})
    return meta.get("namespace", ""), meta.get("name", ""), meta.get("uid", "")


class Reflector(Background):
    """A context manager; ``take`` returns the changes of the set as they arrive.

    The first batch is the complete set, possibly empty. While the server does not have the kind, the set is empty.
    """

    def __init__(
        self, calls: RestClient, resource: Resource, namespace: str | None, selector: Mapping[str, str]
    ) -> None:
        super().__init__(self._follow, f"follow {resource.title(namespace)}", join=0)
        self.trouble: Exception | None = None
        """The current error; None while the watch works."""
        self._calls = calls
        self._resource = resource
        self._namespace = namespace
        self._title = resource.title(namespace)
        self._selector = dict(selector)
        self._known: dict[tuple[str, str, str], Json] = {}
        self._queue: queue.SimpleQueue[list[Change] | Exception] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._reply: Reply | None = None

    def stop(self) -> None:
        """End the watch without waiting for the thread, which may still be listing."""
        super().stop()
        with self._lock:
            if self._reply is not None:
                self._reply.shutdown()

    def take(self, seconds: float) -> list[Change] | None:
        """The next batch of changes, or None after ``seconds`` (at most 0.5 s).

        Raises Interrupted, and ApiFailed when the server refuses to list the set. When the server does not answer, only
        ``trouble`` shows it.
        """
        self._calls.check_cancel()
        try:
            item = self._queue.get(timeout=max(0.0, min(seconds, 0.5)))
        except queue.Empty:
            self._calls.check_cancel()
            return None
        if isinstance(item, Exception):
            raise item
        return item

    def _follow(self, stopping: threading.Event) -> None:
        listed = False
        try:
            while not self.stopping.is_set():
                try:
                    version = self._list(first=not listed)
                    listed = True
                    self.trouble = None
                    while version and not self.stopping.is_set():
                        version = self._watch(version)
                except (ApiFailed, BrokenWatchError, TransportError) as error:
                    # A silent server may be starting, and after the first list a server may restart: both are
                    # retried. A refusal of the first list is final.
                    silent = isinstance(error, Unreachable) and not error.tls
                    if self.stopping.is_set():
                        return
                    if not (listed or silent):
                        raise
                    self.trouble = error
                    log.debug("%s: %s; listing again", self._title, str(error).splitlines()[0])
                self.stopping.wait(PAUSE)
        except Exception as error:  # noqa: BLE001 - raised in the thread that takes
            if not self.stopping.is_set():
                self._queue.put(error)

    def _list(self, *, first: bool) -> str:
        """List the set and queue the differences; returns its resourceVersion, empty if the kind is not served."""
        items, version = self._calls.collection(self._resource, self._namespace, self._selector)
        now = {key_of(obj): obj for obj in items}
        batch: list[Change] = [("DELETED", obj) for key, obj in self._known.items() if key not in now]
        for key, obj in now.items():
            before = self._known.get(key)
            if before is None:
                batch.append(("ADDED", obj))
            elif before["metadata"].get("resourceVersion") != obj["metadata"].get("resourceVersion"):
                batch.append(("MODIFIED", obj))
        self._known = now
        if batch or first:
            self._queue.put(batch)
        return version

    def _watch(self, version: str) -> str:
        """Send one watch request until it ends; returns the resourceVersion for the next one."""
        query = {
            **self._selector,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        reply = self._calls.open(self._resource.path(self._namespace), query, self._title, WATCH_SECONDS + 15.0)
        with self._lock:
            self._reply = reply
            if self.stopping.is_set():
                reply.shutdown()
        start = version
        try:
            for line in reply.lines():
                if self.stopping.is_set():
                    break
                if line.strip():
                    version = self._event(line) or version
        finally:
            with self._lock:
                self._reply = None
            reply.close()
        if version == start:
            # The watch ended without any event or bookmark: avoid a tight loop.
            self.stopping.wait(PAUSE)
        return version

    def _event(self, line: bytes) -> str | None:
        """Queue the event in one line of the watch; returns its resourceVersion."""
        try:
            event = json.loads(line)
        except ValueError as error:
            raise BrokenWatchError("incomplete line: the connection was cut") from error
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            raise BrokenWatchError(f"{obj.get('message') or obj.get('reason') or 'watch error'} ({obj.get('code', 0)})")
        version: str | None = obj["metadata"].get("resourceVersion")
        if kind == "BOOKMARK":
            return version
        if kind == "DELETED":
            self._known.pop(key_of(obj), None)
        else:
            self._known[key_of(obj)] = obj
        self._queue.put([(kind, obj)])
        return version
