"""Finds every object with a lab's label, of all kinds that an API server has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from lab.errors import ApiFailed
from lab.kube.api import OWNER_LABEL, Api
from lab.kube.rest_mapper import Resource

_COPIES = (
    *(("", "Event"), ("events.k8s.io", "Event"), ("discovery.k8s.io", "EndpointSlice"), ("", "Endpoints")),
    *(("metrics.k8s.io", "PodMetrics"), ("metrics.k8s.io", "NodeMetrics")),
)
"""Kinds that the cluster writes and removes by itself; they inherit labels."""


class Labelled(NamedTuple):
    """The objects with a lab's label, as far as the user may list them."""

    titles: tuple[str, ...]
    """Such as ``Queue team-a``."""
    unlisted: tuple[str, ...]
    """Kinds that the user may not list, such as ``Role.rbac.authorization.k8s.io``."""


def labelled(cluster: Api, lab: str) -> Labelled:
    """The objects with the label of ``lab``, and the kinds that the user may not list. Raises ApiFailed."""

    def read(resource: Resource) -> list[str] | None:
        try:
            found = cluster.list(resource.qualified_kind, labels=f"{OWNER_LABEL}={lab}")
        except ApiFailed as error:
            if error.status == 403:
                return None
            if error.status in (404, 405):
                return []
            raise
        return [resource.title(obj["metadata"].get("namespace"), obj["metadata"]["name"]) for obj in found]

    kinds = [kind for kind in cluster.kinds.listable() if (kind.group, kind.kind) not in _COPIES]
    with ThreadPoolExecutor(8, thread_name_prefix="labelled") as pool:
        found = dict(zip((kind.qualified_kind for kind in kinds), pool.map(read, kinds), strict=True))
    titles = sorted(title for some in found.values() for title in some or ())
    return Labelled(tuple(titles), tuple(sorted(kind for kind, some in found.items() if some is None)))
