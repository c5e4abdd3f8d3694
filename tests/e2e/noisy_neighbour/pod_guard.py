"""Detects changes of the pods that run in a cluster, from watch events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from lab.kube.reflector import Change, key_of
from lab.kube.store import Store
from lab.objects.views import PodView

Key = tuple[str, str, str]


class PodGuard:
    """Stores the pods of one cluster; after ``start`` it reports changes of those that ran then.

    Args:
        ignore: namespaces whose pods are not watched.
        mark: label of pods that tests create and delete on purpose.
    """

    def __init__(self, ignore: Collection[str], mark: str) -> None:
        self._ignore = frozenset(ignore)
        self._mark = mark
        self._pods = Store(lambda obj: (key_of(obj), PodView.of(obj)))
        self._watched: dict[Key, PodView] = {}
        self._reported: set[tuple[Key, str]] = set()

    def start(self) -> int:
        """Watch the pods that run now; return their number."""
        self._watched = {key: pod for key, pod in self._pods if pod.ready and not pod.deleting}
        self._reported.clear()
        return len(self._watched)

    def update(self, changes: Iterable[Change]) -> Iterator[tuple[str, str]]:
        """Process watch events; yield ``namespace/name`` of each watched pod that changed, and the change.

        Each type of change is reported once for each pod.
        """
        for kind, obj in changes:
            pod, key = PodView.of(obj), key_of(obj)
            if pod.namespace in self._ignore or self._mark in pod.labels:
                continue
            self._pods.update((kind, obj))
            if (before := self._watched.get(key)) is None:
                continue
            for word, change in _changes(kind, before, pod):
                if (key, word) not in self._reported:
                    self._reported.add((key, word))
                    yield f"{pod.namespace}/{pod.name}", change


def _changes(kind: str, before: PodView, now: PodView) -> Iterator[tuple[str, str]]:
    """Yield a word for each type of change, and its description."""
    if kind == "DELETED":
        yield "gone", f"is gone (uid {now.uid})"
        return
    if now.deleting:
        yield "deleting", "is being deleted"
    if now.restarts != before.restarts:
        yield "restarts", f"restarted: {before.restarts} → {now.restarts} restarts"
    if now.ended:
        yield "ended", f"has ended: {now.phase}{f', {now.reason}' if now.reason else ''}"
    elif not now.ready:
        why = ", ".join(now.waiting_reasons)
        yield "ready", f"is no longer Ready{f': {why}' if why else ''}"
