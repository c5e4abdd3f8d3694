"""Finds every object with a lab's label or of a Helm release, of all kinds that an API server has."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from lab.errors import ApiFailed
from lab.kube.api import OWNER_LABEL, Api
from lab.kube.ownership import BY_HELM, Obj, helm_release
from lab.kube.rest_mapper import Resource

_COPIES = (
    *(("", "Event"), ("events.k8s.io", "Event"), ("discovery.k8s.io", "EndpointSlice"), ("", "Endpoints")),
    *(("metrics.k8s.io", "PodMetrics"), ("metrics.k8s.io", "NodeMetrics")),
)
"""Kinds that the cluster writes and removes by itself; they inherit labels."""


class Found(NamedTuple):
    """Objects of all kinds, as far as the user may list them."""

    titles: tuple[str, ...]
    """Such as ``Queue team-a``."""
    unlisted: tuple[str, ...]
    """Kinds that the user may not list, such as ``Role.rbac.authorization.k8s.io``."""


def labelled(cluster: Api, lab: str) -> Found:
    """The objects with the label of ``lab``. Raises ApiFailed."""
    return _find(cluster, f"{OWNER_LABEL}={lab}", lambda _: True)


def of_release(cluster: Api, namespace: str, name: str) -> Found:
    """The objects of a Helm release, by Helm's annotations. Raises ApiFailed."""
    return _find(cluster, BY_HELM, lambda obj: helm_release(obj) == (namespace, name))


def _find(cluster: Api, labels: str, wanted: Callable[[Obj], bool]) -> Found:
    def read(resource: Resource) -> list[str] | None:
        try:
            found = cluster.list(resource.qualified_kind, labels=labels)
        except ApiFailed as error:
            if error.status == 403:
                return None
            if error.status in (404, 405):
                return []
            raise
        return [
            resource.title(obj["metadata"].get("namespace"), obj["metadata"]["name"]) for obj in filter(wanted, found)
        ]

    kinds = [kind for kind in cluster.kinds.listable() if (kind.group, kind.kind) not in _COPIES]
    with ThreadPoolExecutor(8, thread_name_prefix="leftovers") as pool:
        found = dict(zip((kind.qualified_kind for kind in kinds), pool.map(read, kinds), strict=True))
    titles = sorted(title for some in found.values() for title in some or ())
    return Found(tuple(titles), tuple(sorted(kind for kind, some in found.items() if some is None)))
