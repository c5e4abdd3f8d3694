"""Requests to Services and pods through the API server's proxy, against a strict fake of HTTP."""

from __future__ import annotations

import pytest

from lab.errors import ApiFailed
from lab.kube import Cluster
from lab.kube.proxy import Proxy
from lab.workloads.inference import service
from lab.workloads.namespace import WorkloadNamespace
from tests.support.kube_fake import FakeApi, status

COMPLETIONS = "/api/v1/namespaces/ns/services/vllm:80/proxy/v1/completions"
NO_ENDPOINTS = status(503, 'no endpoints available for service "vllm:80"')


@pytest.fixture
def vllm(cluster: Cluster) -> Proxy:
    return service(WorkloadNamespace("demo", cluster, cluster, "ns"), "vllm")


def test_body_is_posted_to_the_port_of_the_service(vllm: Proxy, api: FakeApi) -> None:
    route = api.on("POST", COMPLETIONS, {"object": "text_completion"})
    assert vllm.post("/v1/completions", {"prompt": "a"}, timeout=7) == {"object": "text_completion"}
    (request,) = route.requests
    assert (request.body, request.content_type, request.timeout) == ({"prompt": "a"}, "application/json", 7)


def test_pod_is_addressed_by_name_and_port(cluster: Cluster, api: FakeApi) -> None:
    api.on("GET", "/api/v1/namespaces/ns/pods/a:http/proxy/facts", {"hostname": "a"})
    assert Proxy(cluster, "Pod", "ns", "a", "http").get("facts") == {"hostname": "a"}


def test_requests_are_retried_while_the_service_has_no_endpoints(vllm: Proxy, api: FakeApi) -> None:
    api.on("POST", COMPLETIONS, NO_ENDPOINTS, NO_ENDPOINTS, {"object": "text_completion"})
    assert vllm.post("/v1/completions", {"prompt": "a"}, patience=60)["object"] == "text_completion"


def test_missing_endpoints_are_an_error_without_patience(vllm: Proxy, api: FakeApi) -> None:
    api.on("POST", COMPLETIONS, NO_ENDPOINTS)
    with pytest.raises(ApiFailed, match="no endpoints available") as refused:
        vllm.post("/v1/completions", {"prompt": "a"})
    assert refused.value.status == 503


def test_refusal_by_the_backend_is_not_retried(vllm: Proxy, api: FakeApi) -> None:
    api.on("POST", COMPLETIONS, (404, {"error": {"message": "The model `x` does not exist."}}))
    with pytest.raises(ApiFailed, match="does not exist") as refused:
        vllm.post("/v1/completions", {"prompt": "a"}, patience=60)
    assert refused.value.status == 404
    assert "Service ns/vllm:80" in refused.value.what


@pytest.mark.parametrize("answer", ["<html>", "[]", ""])
def test_answer_that_is_not_an_object_is_an_error(vllm: Proxy, api: FakeApi, answer: str) -> None:
    api.on("GET", "/api/v1/namespaces/ns/services/vllm:80/proxy/v1/models", (200, answer))
    with pytest.raises(ApiFailed, match="GET Service ns/vllm:80 /v1/models: the answer is not a JSON object"):
        vllm.get("/v1/models")
