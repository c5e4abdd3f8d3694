"""Label, cordon and drain nodes for a test, and restore them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from lab.errors import ApiFailed
from lab.kube import Cluster
from lab.objects.views import PodView

ZONE, RACK = ZONE_AND_RACK = ("kailab.dev/zone", "kailab.dev/rack")
"""Labels of a test, the wider one first: the cluster's real zones do not change."""


@contextmanager
def labelled(cluster: Cluster, labels: Mapping[str, Mapping[str, str]]) -> Iterator[None]:
    """Add labels to nodes (node → key → value); remove them at the end."""
    try:
        for node, wanted in labels.items():
            cluster.patch("Node", node, {"metadata": {"labels": dict(wanted)}})
        yield
    finally:
        for node, wanted in labels.items():
            cluster.patch("Node", node, {"metadata": {"labels": dict.fromkeys(wanted)}})


@contextmanager
def cordoned(cluster: Cluster, node: str) -> Iterator[None]:
    """Cordon a node until the end of the block."""
    try:
        cluster.patch("Node", node, {"spec": {"unschedulable": True}})
        yield
    finally:
        cluster.patch("Node", node, {"spec": {"unschedulable": None}})


def evict(cluster: Cluster, pod: PodView) -> None:
    """Evict a pod through the API, as ``kubectl drain`` does; a pod that does not exist counts as evicted."""
    path = cluster.kinds.named("Pod").path(pod.namespace, pod.name, "eviction")
    meta = {"name": pod.name, "namespace": pod.namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    try:
        cluster.calls.json("POST", path, title=f"eviction of pod {pod.namespace}/{pod.name}", body=body)
    except ApiFailed as error:
        if error.status != 404:
            raise
