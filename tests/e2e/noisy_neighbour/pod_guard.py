"""Whether the pods that run in a cluster stay as they are: told of its changes, it says what happened to them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from lab.kube.reflector import Change, key_of
from lab.kube.store import Store
from lab.objects.views import PodView

Key = tuple[str, str, str]


class Guard:
    """Knows the pods of one cluster, and from ``fix`` on watches over those that run.

    Args:
        ignore: namespaces whose pods are somebody else's.
        mark: label of pods that come and go on purpose.
    """

    def __init__(self, ignore: Collection[str], mark: str) -> None:
        self._ignore = frozenset(ignore)
        self._mark = mark
        self._there = Store(lambda obj: (key_of(obj), PodView.of(obj)))
        self._watched: dict[Key, PodView] = {}
        self._told: set[tuple[Key, str]] = set()

    def fix(self) -> int:
        """Watch over the pods that run now; how many there are."""
        self._watched = {key: pod for key, pod in self._there if pod.ready and not pod.deleting}
        self._told.clear()
        return len(self._watched)

    def hear(self, changes: Iterable[Change]) -> Iterator[tuple[str, str]]:
        """Take changes in; gives ``namespace/name`` of each pod that did not stay as it was, and what happened to it.

        Each kind of change is told once for each pod.
        """
        for kind, obj in changes:
            pod, key = PodView.of(obj), key_of(obj)
            if pod.namespace in self._ignore or self._mark in pod.labels:
                continue
            self._there.update((kind, obj))
            if (before := self._watched.get(key)) is None:
                continue
            for word, what in _changed(kind, before, pod):
                if (key, word) not in self._told:
                    self._told.add((key, word))
                    yield f"{pod.namespace}/{pod.name}", what


def _changed(kind: str, before: PodView, now: PodView) -> Iterator[tuple[str, str]]:
    """What is no longer as it was: a word for each kind of change, and the sentence."""
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
