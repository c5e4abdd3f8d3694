"""Label, cordon and drain nodes for a test, and restore them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from lab.errors import ApiFailed
from lab.kube import Cluster
from lab.objects.views import PodView
from lab.workloads.temporary import changed

ZONE, RACK = ZONE_AND_RACK = ("kailab.dev/zone", "kailab.dev/rack")
"""Labels of a test, the wider one first: the cluster's real zones do not change."""


@contextmanager
def labelled(cluster: Cluster, lab: str, labels: Mapping[str, Mapping[str, str]]) -> Iterator[None]:
    """Add labels to nodes (node → key → value); remove them at the end."""
    with ExitStack() as stack:
        for node, wanted in labels.items():
            stack.enter_context(changed(cluster, lab, "Node", node, {"metadata": {"labels": dict(wanted)}}))
        yield


@contextmanager
def cordoned(cluster: Cluster, lab: str, node: str) -> Iterator[None]:
    """Cordon a node until the end of the block."""
    with changed(cluster, lab, "Node", node, {"spec": {"unschedulable": True}}):
        yield


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
