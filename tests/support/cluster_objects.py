"""Every object of a cluster without what changes by itself, to compare a cluster before and after a lab."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lab.errors import ApiFailed
from lab.kube import Cluster

_MOVING = frozenset(
    {
        ("", "Event"),
        ("events.k8s.io", "Event"),
        ("coordination.k8s.io", "Lease"),
        ("discovery.k8s.io", "EndpointSlice"),
        ("", "Endpoints"),
        ("", "ComponentStatus"),
    }
)
_META = ("resourceVersion", "managedFields", "generation")


def objects_in(cluster: Cluster) -> dict[str, str]:
    """Title of each object → its content without status, versions and managed fields, as JSON.

    Kinds that the user may not list are left out. Raises ApiFailed.
    """
    kinds = {
        (resource.group, resource.kind): resource
        for resource in cluster.kinds.listable()
        if (resource.group, resource.kind) not in _MOVING
    }

    def read(kind: str) -> list[dict[str, Any]]:
        try:
            return cluster.list(kind)
        except ApiFailed as error:
            if error.status in (403, 404, 405):
                return []
            raise  # a comparison without these objects would prove nothing

    with ThreadPoolExecutor(8) as pool:
        lists = pool.map(read, [resource.qualified_kind for resource in kinds.values()])
        return dict(_content(obj) for objects in lists for obj in objects if not _by_controller(obj))


def _by_controller(obj: dict[str, Any]) -> bool:
    """Whether an object is a controller's, which makes it again under another name; the controller counts."""
    return obj["kind"] == "Pod" and any(
        owner.get("controller") for owner in obj["metadata"].get("ownerReferences") or []
    )


def _content(obj: dict[str, Any]) -> tuple[str, str]:
    meta = {key: value for key, value in obj["metadata"].items() if key not in _META}
    rest = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    if obj["kind"] == "Node":  # the node controller's taints follow the node's state, some seconds later
        taints = [one for one in obj["spec"].get("taints") or [] if not one["key"].startswith("node.kubernetes.io/")]
        rest["spec"] = {**obj["spec"], "taints": taints}
    title = f"{obj['apiVersion']} {obj['kind']} {meta.get('namespace', '')}/{meta['name']}"
    return title, json.dumps({**rest, "metadata": meta}, sort_keys=True)


def changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Objects that were made, removed or changed, one line each."""
    lines = [f"made: {title}" for title in sorted(after.keys() - before.keys())]
    lines += [f"removed: {title}" for title in sorted(before.keys() - after.keys())]
    both = sorted(before.keys() & after.keys())
    return lines + [f"changed: {t}\n  {before[t]}\n  {after[t]}" for t in both if before[t] != after[t]]
