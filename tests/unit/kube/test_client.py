"""Reading, errors, retries, kinds, logs and exec, against a strict fake of HTTP."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from lab.errors import ApiFailed, Interrupted
from lab.kube import Cluster
from lab.kube.transport import ExecOutcome, TransportError
from tests.support.kube_fake import CUT, PODS, QUEUES, REFUSED, FakeApi, listing, pod, status

# --- get, list, patch


def test_get_returns_none_for_missing_objects(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", f"{PODS}/a", pod("a"))
    api.on("GET", f"{PODS}/b", status(404, 'pods "b" not found'))
    api.on("GET", f"{QUEUES}/test", (404, "404 page not found"))
    found = cluster.get("Pod", "a", "ns")
    assert found is not None
    assert found["metadata"]["name"] == "a"
    assert cluster.get("Pod", "b", "ns") is None
    assert cluster.get("Queue", "test", "ignored") is None


def test_get_of_a_namespaced_object_needs_its_namespace(cluster: Cluster) -> None:
    with pytest.raises(ApiFailed, match="Pod a: the namespace is missing"):
        cluster.get("Pod", "a")


def test_list_sets_api_version_and_kind_of_items(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, listing(pod("a")), query={"labelSelector": "x=1", "fieldSelector": "spec.nodeName=n"})
    api.on("GET", "/api/v1/pods", listing(), query={})
    (only,) = cluster.list("Pod", "ns", labels="x=1", fields="spec.nodeName=n")
    assert (only["apiVersion"], only["kind"]) == ("v1", "Pod")
    assert cluster.list("Pod") == []


def test_list_of_a_kind_without_its_crd_is_empty(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", QUEUES, (404, "404 page not found"))
    assert cluster.list("Queue") == []


def test_patch_is_a_merge_patch(api: FakeApi, cluster: Cluster) -> None:
    route = api.on("PATCH", f"{PODS}/a/status", pod("a"))
    cluster.patch("Pod", "a", {"status": {"phase": None}}, "ns", "status")
    assert route.requests[0].content_type == "application/merge-patch+json"
    assert route.requests[0].body == {"status": {"phase": None}}


# --- errors and retries


def test_transient_failures_are_retried(api: FakeApi, cluster: Cluster, pauses: list[float]) -> None:
    answers = [CUT, REFUSED, status(429, "x"), status(503, "x"), status(500, "etcdserver: leader changed")]
    api.on("GET", f"{PODS}/a", *answers, pod("a"))
    assert cluster.get("Pod", "a", "ns") is not None
    assert pauses == [0.2, 0.4, 0.8, 1.6, 1.6]


def test_unreachable_server_is_named(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, *[REFUSED] * 6)
    with pytest.raises(ApiFailed) as caught:
        cluster.list("Pod", "ns")
    text = str(caught.value)
    assert caught.value.status == 0
    assert "https://127.0.0.1:6443" in text
    assert "/lab/kubeconfig, context kind-kailab-demo" in text
    assert "Connection refused" in text
    assert "next: check whether the cluster runs" in text


def test_refused_credentials_name_the_file_that_they_were_copied_from(api: FakeApi) -> None:
    copy = Cluster(Path("/lab/copy"), transport=api, origin="context farm of /home/jane/.kube/config")
    api.on("GET", PODS, status(401, "Unauthorized"))
    with pytest.raises(ApiFailed) as refused:
        copy.list("Pod", "ns")
    assert refused.value.fix.startswith("renew the credentials of context farm of /home/jane/.kube/config; ")


def test_untrusted_certificate_is_not_retried(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, TransportError("certificate verify failed", tls=True))
    with pytest.raises(ApiFailed, match=r"untrusted certificate: certificate verify failed\n.*recreated"):
        cluster.list("Pod", "ns")


@pytest.mark.parametrize(
    ("code", "message", "fix"),
    [
        (400, "bad", "correct the object"),
        (401, "Unauthorized", "renew the credentials in /lab/kubeconfig"),
        (403, "pods is forbidden", "more permissions than kind-kailab-demo"),
        (
            403,
            'pods "a" is forbidden: exceeded quota: team, requested: pods=1',
            "the quota, limit or Pod Security level",
        ),
        (
            403,
            'pods "a" is forbidden: violates PodSecurity "restricted:latest"',
            "the quota, limit or Pod Security level",
        ),
        (403, "pods is forbidden: maximum cpu usage per Pod is 1", "the quota, limit or Pod Security level"),
        (400, 'admission webhook "v.kai" denied the request: no', "as the admission check requires"),
        (409, "exists", "check the existing object"),
        (422, "invalid", "correct the object"),
        (500, "broken", "log of the API server"),
    ],
)
def test_refusals_include_message_status_and_next_action(
    api: FakeApi, cluster: Cluster, code: int, message: str, fix: str
) -> None:
    causes = {"causes": [{"field": "spec.containers", "message": "Required value"}]}
    api.on("POST", PODS, status(code, message, details=causes))
    with pytest.raises(ApiFailed) as caught:
        cluster.create(pod("a"))
    assert caught.value.what == f"POST Pod ns/a: {message} (HTTP {code})"
    assert caught.value.status == code
    assert caught.value.evidence == ("spec.containers: Required value",)
    assert fix in caught.value.fix


def test_answer_that_is_not_a_kubernetes_object_is_an_error(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", PODS, (200, "<html>login</html>"))
    with pytest.raises(ApiFailed, match="did not answer with a Kubernetes object"):
        cluster.list("Pod", "ns")


def test_cancel_ends_retries(api: FakeApi) -> None:
    cluster = Cluster(Path("k"), transport=api)
    cluster.cancel = threading.Event()
    cluster.cancel.set()
    api.on("GET", PODS, REFUSED)
    with pytest.raises(Interrupted):
        cluster.list("Pod", "ns")


def test_healthy_sends_one_request(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", "/readyz", (200, "ok"), (500, "[-]etcd failed"), REFUSED)
    assert [cluster.healthy() for _ in range(3)] == [True, False, False]
    assert api.requests[0].timeout == 2.0


def test_healthy_is_false_without_a_kubeconfig(tmp_path: Path) -> None:
    assert Cluster(tmp_path / "none").healthy() is False


def test_close_disconnects_and_kubectl_names_the_cluster(api: FakeApi, cluster: Cluster) -> None:
    cluster.close()
    assert api.closed == 0  # never connected
    api.on("GET", "/readyz", (200, "ok"))
    cluster.healthy()
    cluster.close()
    assert api.closed == 1
    assert cluster.kubectl("get", "a b") == (
        "kubectl --kubeconfig /lab/kubeconfig --context kind-kailab-demo get 'a b'"
    )


# --- kinds


def test_unknown_kinds_are_discovered_once(api: FakeApi, cluster: Cluster) -> None:
    row = {"name": "widgets", "kind": "Widget", "namespaced": True}
    api.on("GET", "/apis", {"groups": [{"name": "x.io", "preferredVersion": {"groupVersion": "x.io/v1"}}]})
    api.on("GET", "/api/v1", {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True}]})
    api.on("GET", "/apis/x.io/v1", {"resources": [{**row, "name": "widgets/status"}, row]})
    api.on("GET", "/apis/x.io/v1/namespaces/ns/widgets", listing(), listing())
    api.on("PATCH", "/apis/x.io/v1/namespaces/ns/widgets/w", {})
    assert cluster.list("Widget", "ns") == cluster.list("Widget.x.io", "ns") == []
    cluster.apply([{"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "ns"}}])


def test_unknown_kind_is_an_error(api: FakeApi, cluster: Cluster) -> None:
    api.on("GET", "/apis/x.io", (404, "404 page not found"))
    with pytest.raises(ApiFailed, match=r"no kind Widget\.x\.io") as caught:
        cluster.list("Widget.x.io")
    assert caught.value.status == 404


def test_ambiguous_kind_is_an_error(api: FakeApi, cluster: Cluster) -> None:
    groups = [{"preferredVersion": {"groupVersion": f"{g}/v1"}} for g in ("a.io", "b.io")]
    api.on("GET", "/apis", {"groups": groups})
    api.on("GET", "/api/v1", {"resources": []})
    for group in ("a.io", "b.io"):
        api.on("GET", f"/apis/{group}/v1", {"resources": [{"name": "ws", "kind": "W", "namespaced": False}]})
    with pytest.raises(ApiFailed, match=r"2 API groups have a kind W: a\.io, b\.io\n  next: .*W\.a\.io"):
        cluster.list("W")


# --- logs and exec


def test_logs_are_of_the_default_container(api: FakeApi, cluster: Cluster) -> None:
    chosen = pod("a", metadata={"annotations": {"kubectl.kubernetes.io/default-container": "side"}})
    api.on("GET", f"{PODS}/a", chosen, pod("a"))
    api.on("GET", f"{PODS}/a/log", (200, "one\n"), query={"container": "side"})
    query = {"container": "main", "tailLines": "5", "previous": "true"}
    api.on("GET", f"{PODS}/a/log", (200, "two\n"), query=query)
    assert cluster.logs("a", "ns") == "one\n"
    assert cluster.logs("a", "ns", tail=5, previous=True) == "two\n"


def test_exec_returns_stdout(api: FakeApi, cluster: Cluster) -> None:
    api.exec_answer = ExecOutcome("GPU-1\n", "noise", {"status": "Success"})
    assert cluster.exec("a", "ns", ["printenv", "X"], "main") == "GPU-1\n"
    ((path, query),) = api.execs
    assert path == f"{PODS}/a/exec"
    assert query[0] == ("container", "main")
    assert [value for key, value in query if key == "command"] == ["printenv", "X"]


def test_failed_exec_includes_its_output(api: FakeApi, cluster: Cluster) -> None:
    causes = {"causes": [{"reason": "ExitCode", "message": "3"}]}
    api.exec_answer = ExecOutcome("out", "err", {"status": "Failure", "message": "m", "details": causes})
    with pytest.raises(ApiFailed, match="sh -c 'exit 3' in Pod ns/a, container main: ended with status 3") as caught:
        cluster.exec("a", "ns", ["sh", "-c", "exit 3"], "main")
    assert caught.value.evidence == ("out", "err")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ExecOutcome("", "", None), "the connection ended before the command did"),
        (ExecOutcome("", "", {"status": "Failure", "message": "no such container"}), "no such container"),
        (TimeoutError(), "did not end within 30 s"),
        (ApiFailed('pods "a" not found', status=404), r'pods "a" not found \(HTTP 404\)'),
        (TransportError("Connection refused"), "does not answer: Connection refused"),
    ],
)
def test_exec_that_cannot_run_is_an_error(api: FakeApi, cluster: Cluster, answer: Any, message: str) -> None:
    api.exec_answer = answer
    with pytest.raises(ApiFailed, match=message):
        cluster.exec("a", "ns", ["true"], "main")


def test_exec_that_never_started_is_retried(api: FakeApi, cluster: Cluster, pauses: list[float]) -> None:
    died = {
        "status": "Failure",
        "message": "OCI runtime exec failed: exec failed: unable to start container process:"
        " waiting for init preliminary setup: read init-p: connection reset by peer: unknown",
    }
    answers = [ExecOutcome("", "", died), ExecOutcome("GPU-1\n", "", {"status": "Success"})]
    api.exec_answer = lambda cancelled: answers.pop(0)
    assert cluster.exec("a", "ns", ["nvidia-smi"], "main") == "GPU-1\n"
    assert pauses == [0.5]
    api.exec_answer = ExecOutcome("", "", died)
    with pytest.raises(ApiFailed, match="waiting for init preliminary setup"):
        cluster.exec("a", "ns", ["nvidia-smi"], "main")
    assert len(api.execs) == 5


def test_exec_stops_when_cancelled(api: FakeApi, cluster: Cluster) -> None:
    cluster.cancel = threading.Event()

    def ends_on_cancel(cancelled: Any) -> ExecOutcome:
        assert not cancelled()
        cluster.cancel.set()  # type: ignore[union-attr]
        assert cancelled()
        raise TimeoutError

    api.exec_answer = ends_on_cancel
    with pytest.raises(Interrupted):
        cluster.exec("a", "ns", ["sleep", "9"], "main")
