"""Asking a server through the API server, against a strict fake of HTTP."""

from __future__ import annotations

import pytest

from lab.errors import ApiFailed
from lab.kube import Cluster
from lab.kube.proxy import Proxy
from lab.workloads.inference import service
from lab.workloads.namespace import WorkloadNamespace
from tests.support.kube_fake import FakeApi, status

COMPLETIONS = "/api/v1/namespaces/ns/services/vllm:80/proxy/v1/completions"
NOBODY = status(503, 'no endpoints available for service "vllm:80"')


@pytest.fixture
def front(cluster: Cluster) -> Proxy:
    return service(WorkloadNamespace("demo", cluster, cluster, "ns"), "vllm")


def test_body_goes_to_the_services_port(front: Proxy, api: FakeApi) -> None:
    route = api.on("POST", COMPLETIONS, {"object": "text_completion"})
    assert front.post("/v1/completions", {"prompt": "a"}, timeout=7) == {"object": "text_completion"}
    (request,) = route.requests
    assert (request.body, request.content_type, request.timeout) == ({"prompt": "a"}, "application/json", 7)


def test_pod_is_asked_by_its_name_and_port(cluster: Cluster, api: FakeApi) -> None:
    api.on("GET", "/api/v1/namespaces/ns/pods/a:http/proxy/facts", {"hostname": "a"})
    assert Proxy(cluster, "Pod", "ns", "a", "http").get("facts") == {"hostname": "a"}


def test_patience_while_nobody_is_behind_the_service(front: Proxy, api: FakeApi) -> None:
    api.on("POST", COMPLETIONS, NOBODY, NOBODY, {"object": "text_completion"})
    assert front.post("/v1/completions", {"prompt": "a"}, patience=60)["object"] == "text_completion"


def test_without_patience_the_first_refusal_counts(front: Proxy, api: FakeApi) -> None:
    api.on("POST", COMPLETIONS, NOBODY)
    with pytest.raises(ApiFailed, match="no endpoints available") as refused:
        front.post("/v1/completions", {"prompt": "a"})
    assert refused.value.status == 503


def test_refusal_of_the_server_itself_is_not_repeated(front: Proxy, api: FakeApi) -> None:
    api.on("POST", COMPLETIONS, (404, {"error": {"message": "The model `x` does not exist."}}))
    with pytest.raises(ApiFailed, match="does not exist") as refused:
        front.post("/v1/completions", {"prompt": "a"}, patience=60)
    assert refused.value.status == 404
    assert "Service ns/vllm:80" in refused.value.what


@pytest.mark.parametrize("answer", ["<html>", "[]", ""])
def test_answer_that_is_no_object(front: Proxy, api: FakeApi, answer: str) -> None:
    api.on("GET", "/api/v1/namespaces/ns/services/vllm:80/proxy/v1/models", (200, answer))
    with pytest.raises(ApiFailed, match="GET Service ns/vllm:80 /v1/models: the answer is not a JSON object"):
        front.get("/v1/models")
