"""The object that the words of a command name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lab.errors import SpecError
from lab.explain.owners import kind_of
from lab.objects.workload import WORKLOADS
from lab.snapshot.cluster_snapshot import ClusterSnapshot


class Subject(NamedTuple):
    """A pod or a workload by name."""

    kind: str
    """Empty for a pod."""
    namespace: str
    name: str

    @classmethod
    def of(cls, snapshot: ClusterSnapshot, words: Sequence[str], namespace: str | None) -> Subject:
        """Read ``NAME``, ``NAMESPACE/NAME``, ``KIND/NAME`` or ``KIND NAME``, whose name can have a namespace.

        ``X/NAME`` is a namespace and a name if namespace X exists; otherwise X may be a kind. A name that no pod has
        may be a workload's. Raises SpecError for other words.
        """
        if len(words) > 2 or not all(words):
            raise SpecError(f"{' '.join(words)}: more than a kind and a name", fix="kailab explain KIND NAMESPACE/NAME")
        *first, rest = words
        left, _, name = rest.rpartition("/")
        kind = _kind(snapshot, first[0]) if first else ""
        if not first and left and not _is_namespace(snapshot, left):
            word, _, space = left.partition("/")
            kind = kind_of(snapshot, word)
            left = space if kind else left
        found = cls("" if kind == "Pod" else kind, left or namespace or "default", name)
        if found.kind or kind or snapshot.get("Pod", name, found.namespace) is not None:
            return found
        workloads = (one for one in WORKLOADS if snapshot.get(one, name, found.namespace) is not None)
        return found._replace(kind=next(workloads, ""))


def _kind(snapshot: ClusterSnapshot, word: str) -> str:
    if kind := kind_of(snapshot, word):
        return kind
    raise SpecError(f"kind {word}: the cluster does not have it", fix="kubectl api-resources lists the kinds")


def _is_namespace(snapshot: ClusterSnapshot, name: str) -> bool:
    return snapshot.get("Namespace", name) is not None or any(pod.namespace == name for pod in snapshot.pods)
