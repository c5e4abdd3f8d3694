"""Finds every object with a lab's label, of all kinds that an API server has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from lab.errors import ApiFailed
from lab.kube.api import OWNER_LABEL, Api
from lab.kube.client import Cluster
from lab.kube.rest import Json
from lab.kube.rest_mapper import Resource

_GONE_SECONDS = 60.0

_COPIES = (
    *(("", "Event"), ("events.k8s.io", "Event"), ("discovery.k8s.io", "EndpointSlice"), ("", "Endpoints")),
    *(("metrics.k8s.io", "PodMetrics"), ("metrics.k8s.io", "NodeMetrics")),
)
"""Kinds that the cluster writes and removes by itself; they inherit labels."""


def labelled(cluster: Api, lab: str) -> tuple[str, ...]:
    """Titles of the objects with the label of ``lab``, such as ``Queue team-a``.

    Skips kinds that the user may not list. Raises ApiFailed.
    """
    found = _labelled(cluster, lab)
    return tuple(sorted(resource.title(meta.get("namespace"), meta["name"]) for resource, meta in found))


def delete_labelled(cluster: Cluster, lab: str) -> None:
    """Delete the objects with the label of ``lab`` and wait until they are gone, namespaces last. Raises ApiFailed."""
    found = sorted(_labelled(cluster, lab), key=lambda one: one[0].kind == "Namespace")
    for resource, meta in found:
        cluster.delete(resource.qualified_kind, meta["name"], meta.get("namespace"), wait=_GONE_SECONDS)


def _labelled(cluster: Api, lab: str) -> list[tuple[Resource, Json]]:
    kinds = [kind for kind in cluster.kinds.listable() if (kind.group, kind.kind) not in _COPIES]

    def read(resource: Resource) -> list[tuple[Resource, Json]]:
        try:
            found = cluster.list(resource.qualified_kind, labels=f"{OWNER_LABEL}={lab}")
        except ApiFailed as error:
            if error.status in (403, 404, 405):
                return []
            raise
        return [(resource, obj["metadata"]) for obj in found]

    with ThreadPoolExecutor(8, thread_name_prefix="labelled") as pool:
        return [one for some in pool.map(read, kinds) for one in some]
