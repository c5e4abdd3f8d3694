"""Wait on a watched set of objects until a predicate holds, with evidence when it does not."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

from lab.errors import ApiFailed, WaitTimeout
from lab.kube.api import Api
from lab.kube.describe import gather, state_of, title_of
from lab.kube.readiness import is_ready, replaced, why_never
from lab.kube.reflector import Reflector, key_of
from lab.kube.rest import Json
from lab.kube.store import Store

log = logging.getLogger("lab.kube.wait")

FIRST_LIST = 5.0
"""Minimum seconds for the first list, however short the timeout is."""

Predicate = Callable[[list[Json]], bool]
FailFast = Callable[[list[Json]], str | None]


class Wait:
    """One wait; its arguments are those of ``Cluster.wait``."""

    def __init__(
        self, api: Api, kind: str, namespace: str | None, selector: Mapping[str, str], timeout: float, what: str
    ) -> None:
        self._api = api
        self._kind = kind
        self._namespace = namespace
        self._selector = selector
        # For runs in which waits are expected to fail.
        self._timeout = min(timeout, float(os.environ.get("KAILAB_WAIT_LIMIT") or "inf"))
        self._what = what
        self._store: Store[Json] = Store(lambda obj: obj)
        self._lines: dict[tuple[str, str, str], str] = {}

    def until(self, predicate: Predicate, fail: FailFast | None = None, hold: float = 0.0) -> list[Json]:
        """Return the objects once ``predicate`` has held for ``hold`` seconds. Raises like ``Cluster.wait``."""
        start = time.monotonic()
        deadline = start + self._timeout
        since: float | None = None
        listed = False
        resource = self._api.kinds.named(self._kind)
        with Reflector(self._api.calls, resource, self._namespace, self._selector) as reflector:
            while True:
                now = time.monotonic()
                if since is not None and now - since >= hold:
                    return list(self._store)
                limit = deadline if listed else max(deadline, start + FIRST_LIST)
                wake = limit if since is None else min(limit, since + hold)
                batch = reflector.take(wake - now)
                if batch is not None:
                    listed = True
                    self._merge(batch)
                    objects = list(self._store)
                    if not predicate(objects):
                        since = None
                        if fail is not None and (reason := fail(objects)):
                            self._give_up(reason, None)
                    elif since is None:
                        since = time.monotonic()
                if time.monotonic() >= limit and (since is None or since + hold > limit):
                    if not listed and isinstance(reflector.trouble, ApiFailed):
                        raise reflector.trouble
                    self._give_up(f"not within {self._timeout:g} s", reflector.trouble)

    def _merge(self, batch: Iterable[tuple[str, Json]]) -> None:
        for change, obj in batch:
            self._store.update((change, obj))
            if log.isEnabledFor(logging.DEBUG):
                self._log(change, obj)

    def _log(self, change: str, obj: Json) -> None:
        """Log the object's state if it differs from what was logged last."""
        line = "deleted" if change == "DELETED" else state_of(obj)
        if self._lines.get(key_of(obj)) != line:
            self._lines[key_of(obj)] = line
            log.debug("%s: %s", title_of(obj), line)

    def _give_up(self, why: str, trouble: Exception | None) -> NoReturn:
        place = [f"in {self._namespace}"] if self._namespace else []
        where = " ".join([*place, *(f"with {value}" for value in self._selector.values())])
        evidence = gather(self._api, self._kind, list(self._store), self._namespace, where)
        if trouble is not None:
            evidence.append(f"API: {str(trouble).splitlines()[0]}")
        fix = f"inspect with: {self._api.kubectl(*self._describe())}"
        raise WaitTimeout(f"{self._what}: {why}", evidence=evidence, fix=fix)

    def _describe(self) -> list[str]:
        args = ["describe", self._kind.lower()]
        unready = [obj for obj in self._store if not is_ready(obj)]
        if len(unready) == 1:
            meta = unready[0].get("metadata", {})
            space = ["-n", meta["namespace"]] if meta.get("namespace") else []
            return [*args, meta.get("name", ""), *space]
        if labels := self._selector.get("labelSelector"):
            args += ["-l", labels]
        return [*args, *(["-n", self._namespace] if self._namespace else [])]


def ready_predicates(names: Iterable[str] | None) -> tuple[Predicate, FailFast]:
    """Predicate and fail-fast function of ``wait_ready``.

    All of ``names`` must exist and be ready; with None at least one object, and all except pods being replaced.
    """
    wanted = None if names is None else frozenset(names)

    def chosen(objects: list[Json]) -> list[Json]:
        return [obj for obj in objects if (not replaced(obj) if wanted is None else key_of(obj)[1] in wanted)]

    def predicate(objects: list[Json]) -> bool:
        mine = chosen(objects)
        complete = bool(mine) if wanted is None else wanted <= {key_of(obj)[1] for obj in mine}
        return complete and all(map(is_ready, mine))

    def fail(objects: list[Json]) -> str | None:
        return next(filter(None, map(why_never, chosen(objects))), None)

    return predicate, fail
