"""Finds every object with a lab's label, of all kinds that an API server has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from lab.errors import ApiFailed
from lab.kube.api import OWNER_LABEL, Api

_COPIES = (("", "Event"), ("events.k8s.io", "Event"), ("discovery.k8s.io", "EndpointSlice"), ("", "Endpoints"))
"""Kinds that the cluster writes and removes by itself; they inherit labels."""


def labelled(cluster: Api, lab: str) -> tuple[str, ...]:
    """Titles of the objects with the label of ``lab``, such as ``Queue team-a``.

    Skips kinds that the user may not list. Raises ApiFailed.
    """
    kinds = [kind for kind in cluster.kinds.listable() if (kind.group, kind.kind) not in _COPIES]

    def read(kind: str) -> list[str]:
        resource = cluster.kinds.named(kind)
        try:
            found = cluster.list(kind, labels=f"{OWNER_LABEL}={lab}")
        except ApiFailed as error:
            if error.status in (403, 404, 405):
                return []
            raise
        metas = [obj["metadata"] for obj in found]
        return [resource.title(meta.get("namespace"), meta["name"]) for meta in metas]

    with ThreadPoolExecutor(8, thread_name_prefix="labelled") as pool:
        lines = pool.map(read, [kind.qualified_kind for kind in kinds])
    return tuple(sorted(line for some in lines for line in some))
