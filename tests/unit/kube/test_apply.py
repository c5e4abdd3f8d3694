"""Apply, create and delete, against a strict fake of HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from lab.errors import ApiFailed, WaitTimeout
from lab.kube import Cluster
from tests.support.builders import queue
from tests.support.kube_fake import CUT, PODS, QUEUES, REFUSED, FakeApi, Stream, listing, pod, status

# --- apply and create


def test_apply_is_server_side_with_force(api: FakeApi, cluster: Cluster) -> None:
    route = api.on("PATCH", f"{PODS}/a", {"kind": "Pod", "spec": {}}, query={"fieldManager": "kailab", "force": "true"})
    doc = pod("a")
    doc["metadata"]["managedFields"] = [{}]
    assert cluster.apply([doc]) == [{"kind": "Pod", "spec": {}}]
    sent = route.requests[0]
    assert sent.content_type == "application/apply-patch+yaml"
    assert sent.body["spec"] == doc["spec"]
    assert sent.body["metadata"] == {"name": "a", "namespace": "ns", "uid": "uid-a"}
    assert "managedFields" in doc["metadata"]


def test_apply_expands_lists_and_skips_empty_documents_in_order(api: FakeApi, cluster: Cluster) -> None:
    api.on("PATCH", f"{QUEUES}/one", {})
    api.on("PATCH", "/api/v1/namespaces/default/configmaps/c", {})
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    cluster.apply([None, {}, {"apiVersion": "v1", "kind": "List", "items": [queue("one"), config]}])
    assert [r.path.rsplit("/", 1)[1] for r in api.requests] == ["one", "c"]


def test_apply_uses_the_api_version_of_the_document(api: FakeApi, cluster: Cluster) -> None:
    api.on("PATCH", "/apis/scheduling.run.ai/v3/queues/test", {})
    cluster.apply([{**queue(), "apiVersion": "scheduling.run.ai/v3"}])


@pytest.mark.parametrize(
    "first",
    [
        (404, "404 page not found\n"),
        status(500, 'Internal error occurred: failed calling webhook "q.kai": connection refused'),
    ],
)
def test_missing_crd_or_webhook_is_retried_only_on_request(
    api: FakeApi, cluster: Cluster, pauses: list[float], first: Any
) -> None:
    api.on("PATCH", f"{QUEUES}/test", first, first, first, {"kind": "Queue"})
    with pytest.raises(ApiFailed) as caught:
        cluster.apply([queue()])
    assert caught.value.status == first[0]
    assert len(api.requests) == 1
    assert cluster.apply([queue()], retry=60) == [{"kind": "Queue"}]
    assert pauses == [0.25, 0.5]


def test_apply_does_not_retry_a_missing_namespace(api: FakeApi, cluster: Cluster) -> None:
    api.on("PATCH", f"{PODS}/a", status(404, 'namespaces "ns" not found'))
    with pytest.raises(ApiFailed, match=r'PATCH Pod ns/a: namespaces "ns" not found \(HTTP 404\)'):
        cluster.apply([pod("a")], retry=60)


def test_apply_refuses_invalid_objects(cluster: Cluster) -> None:
    with pytest.raises(ApiFailed, match="not a Kubernetes object: apiVersion None, kind 'Pod'"):
        cluster.apply([{"kind": "Pod"}])
    with pytest.raises(ApiFailed, match="Queue without a name"):
        cluster.apply([{**queue(), "metadata": {"generateName": "x"}}])


def test_create_is_not_repeated_when_it_may_have_succeeded(api: FakeApi, cluster: Cluster) -> None:
    api.on("POST", PODS, CUT)
    with pytest.raises(ApiFailed, match="Connection reset"):
        cluster.create(pod("a"))
    api.on("POST", PODS, REFUSED, status(429, "slow down"), pod("a"))
    assert cluster.create(pod("a"))["metadata"]["name"] == "a"


def test_create_is_retried_until_the_service_account_exists(api: FakeApi, cluster: Cluster) -> None:
    missing = 'pods "a" is forbidden: error looking up service account ns/default: not found'
    api.on("POST", PODS, status(403, missing), pod("a"))
    cluster.create(pod("a"))


# --- delete


def test_delete_of_a_missing_object_succeeds(api: FakeApi, cluster: Cluster) -> None:
    route = api.on("DELETE", f"{PODS}/a", status(404, "not found"))
    cluster.delete("Pod", "a", "ns", grace=0, wait=5)
    assert route.requests[0].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "gracePeriodSeconds": 0,
    }


def test_delete_waits_for_the_uid_of_the_deleted_object(api: FakeApi, cluster: Cluster) -> None:
    api.on("DELETE", f"{PODS}/a", {"kind": "Status"})
    api.on("GET", f"{PODS}/a", pod("a"))
    api.on("GET", PODS, listing(pod("a")), query={"fieldSelector": "metadata.name=a"})
    api.on("GET", PODS, Stream(("DELETED", pod("a", version="2")), ("ADDED", pod("a", uid="new", version="3"))))
    cluster.delete("Pod", "a", "ns", wait=5)


def test_delete_timeout_names_the_finalizers(api: FakeApi, cluster: Cluster) -> None:
    held = pod("a", metadata={"finalizers": ["kai/hold"], "deletionTimestamp": "2026-01-01T00:00:00Z"})
    api.on("DELETE", f"{PODS}/a", {})
    api.on("GET", f"{PODS}/a", held, held)
    api.on("GET", PODS, listing(held))
    api.on("GET", PODS, Stream())
    api.on("GET", "/api/v1/namespaces/ns/events", listing())
    with pytest.raises(WaitTimeout, match="Pod ns/a is gone: not within") as caught:
        cluster.delete("Pod", "a", "ns", wait=0.1)
    assert caught.value.evidence[0] == "finalizers: kai/hold"
    assert "being deleted" in caught.value.evidence[1]


def test_delete_all_deletes_the_collection(api: FakeApi, cluster: Cluster) -> None:
    api.on("DELETE", PODS, {}, query={"labelSelector": "kailab=demo"})
    api.on("DELETE", QUEUES, (404, "404 page not found"), query={"labelSelector": "kailab=demo"})
    cluster.delete_all("Pod", "ns", "kailab=demo")
    cluster.delete_all("Queue", None, "kailab=demo")


def test_delete_all_across_namespaces_deletes_each_object(api: FakeApi, cluster: Cluster) -> None:
    other = pod("b", metadata={"namespace": "two"})
    api.on("GET", "/api/v1/pods", listing(pod("a"), other), query={"labelSelector": "kailab=demo"})
    api.on("DELETE", f"{PODS}/a", {})
    api.on("DELETE", "/api/v1/namespaces/two/pods/b", {})
    cluster.delete_all("Pod", None, "kailab=demo")


def test_delete_all_without_selector_and_namespace_is_refused(cluster: Cluster) -> None:
    for kind, namespace in (("Pod", None), ("Queue", None), ("Node", "ignored")):
        with pytest.raises(ApiFailed, match="refused to delete all"):
            cluster.delete_all(kind, namespace)
