"""API discovery of every kind that a server can list."""

from __future__ import annotations

import pytest

from lab.errors import ApiFailed
from lab.kube import Cluster
from tests.support.kube_fake import FakeApi, Json, status


def row(kind: str, name: str, *verbs: str, namespaced: bool = True) -> Json:
    return {"kind": kind, "name": name, "namespaced": namespaced, "verbs": list(verbs)}


def group(name: str, *versions: str) -> Json:
    every = [{"groupVersion": f"{name}/{version}"} for version in versions]
    return {"name": name, "preferredVersion": every[0], "versions": every}


def test_listable_kinds_of_every_version_each_once(api: FakeApi, cluster: Cluster) -> None:
    """KAI's group has Queue in its preferred version, and PodGroup in another."""
    pods = [row("Pod", "pods", "get", "list"), row("Pod", "pods/status", "get"), row("Binding", "bindings", "create")]
    queue = row("Queue", "queues", "list", namespaced=False)
    api.on("GET", "/apis", {"groups": [group("scheduling.run.ai", "v2", "v1alpha2")]})
    api.on("GET", "/api/v1", {"resources": pods})
    api.on("GET", "/apis/scheduling.run.ai/v2", {"resources": [queue]})
    api.on(
        "GET", "/apis/scheduling.run.ai/v1alpha2", {"resources": [queue, row("BindRequest", "bindrequests", "list")]}
    )
    assert [(kind.api_version, kind.kind, kind.namespaced) for kind in cluster.kinds.listable()] == [
        ("v1", "Pod", True),
        ("scheduling.run.ai/v2", "Queue", False),
        ("scheduling.run.ai/v1alpha2", "BindRequest", True),
    ]


def test_aggregated_api_whose_server_is_down_is_skipped(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", "/apis", {"groups": [group("metrics.k8s.io", "v1beta1"), group("batch", "v1")]})
    api.on("GET", "/api/v1", {"resources": []})
    api.on("GET", "/apis/metrics.k8s.io/v1beta1", status(503, "service unavailable"), always=True)
    api.on("GET", "/apis/batch/v1", {"resources": [row("Job", "jobs", "list")]})
    assert [kind.kind for kind in cluster.kinds.listable()] == ["Job"]


def test_refused_discovery_is_an_error(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", "/apis", {"groups": []})
    api.on("GET", "/api/v1", status(403, "forbidden"))
    with pytest.raises(ApiFailed, match="forbidden"):
        cluster.kinds.listable()
