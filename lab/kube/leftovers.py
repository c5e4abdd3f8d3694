"""Finds every object with a lab's label, of all kinds that an API server has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from lab.errors import ApiFailed
from lab.kube.api import OWNER_LABEL, Api
from lab.kube.rest_mapper import Resource

_COPIES = (
    *(("", "Event"), ("events.k8s.io", "Event"), ("discovery.k8s.io", "EndpointSlice"), ("", "Endpoints")),
    *(("metrics.k8s.io", "PodMetrics"), ("metrics.k8s.io", "NodeMetrics")),
)
"""Kinds that the cluster writes and removes by itself; they inherit labels."""


def labelled(cluster: Api, lab: str) -> tuple[str, ...]:
    """Titles of the objects with the label of ``lab``, such as ``Queue team-a``.

    Skips kinds that the user may not list. Raises ApiFailed.
    """

    def read(resource: Resource) -> list[str]:
        try:
            found = cluster.list(resource.qualified_kind, labels=f"{OWNER_LABEL}={lab}")
        except ApiFailed as error:
            if error.status in (403, 404, 405):
                return []
            raise
        return [resource.title(obj["metadata"].get("namespace"), obj["metadata"]["name"]) for obj in found]

    kinds = [kind for kind in cluster.kinds.listable() if (kind.group, kind.kind) not in _COPIES]
    with ThreadPoolExecutor(8, thread_name_prefix="labelled") as pool:
        return tuple(sorted(title for some in pool.map(read, kinds) for title in some))
