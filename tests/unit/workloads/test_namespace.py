"""Workload namespaces seen from host and tenant: which cluster gets each request, and when a wait stops."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.errors import WaitTimeout
from lab.kube import Cluster, reflector
from lab.kube.transport import ExecOutcome
from lab.objects.views import PodView
from lab.workloads.controllers import deployment
from lab.workloads.modifiers import as_cluster_has
from lab.workloads.namespace import Inside, WorkloadNamespace
from lab.workloads.pods import cpu_pod, gpu_pod
from lab.workloads.temporary import process_label
from tests.support.fake_api_server import FakeApiServer
from tests.support.kube_fake import FakeApi, Json, Stream, listing, pod
from tests.support.specs import EXISTING, lab_spec

PODS = "/api/v1/namespaces/ns/pods"
ALL_PODS = "/api/v1/pods"
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups"
EVENTS = "/api/v1/namespaces/ns/events"
SELECTOR = {"labelSelector": "vcluster.loft.sh/managed-by=ml,vcluster.loft.sh/namespace=ns"}


def fake() -> Iterator[FakeApi]:
    api = FakeApi()
    yield api
    if unmet := api.unmet():
        pytest.fail("\n".join(unmet), pytrace=False)


host_api = pytest.fixture(fake, name="host_api")
tenant_api = pytest.fixture(fake, name="tenant_api")


@pytest.fixture
def host(host_api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(reflector, "PAUSE", 0.01)
    return Cluster(Path("/lab/kubeconfig"), transport=host_api)


@pytest.fixture
def on_host(host: Cluster) -> WorkloadNamespace:
    return WorkloadNamespace("demo", host, host, "ns")


@pytest.fixture
def in_tenant(host: Cluster, tenant_api: FakeApi) -> WorkloadNamespace:
    return WorkloadNamespace("demo", host, Cluster(Path("/lab/tenant"), transport=tenant_api), "ns", "ml")


def synced(name: str, phase: str = "Pending") -> Json:
    """A tenant's pod as synced to the host."""
    labels = {"vcluster.loft.sh/managed-by": "ml", "vcluster.loft.sh/namespace": "ns"}
    annotations = {"vcluster.loft.sh/object-name": name, "vcluster.loft.sh/object-namespace": "ns"}
    obj = pod(f"{name}-x-ns-x-ml", phase, uid=f"host-{name}")
    return {**obj, "metadata": {**obj["metadata"], "labels": labels, "annotations": annotations}}


def test_new_namespace_has_a_unique_valid_name(host: Cluster, host_api: FakeApi) -> None:
    created = host_api.on("POST", "/api/v1/namespaces", {"kind": "Namespace"}, {"kind": "Namespace"})
    slug = "test_Fractions[my-vcluster] share one GPU"
    names = {WorkloadNamespace.open("demo", host, slug, labels={"team": "ml"}).namespace for _ in range(2)}
    assert len(names) == 2
    assert all(re.fullmatch(r"t-test-fractions-my-vclust-[0-9a-f]{6}", name) for name in names)
    labels = {"team": "ml", "kailab": "demo", **process_label("demo")}
    assert created.requests[0].body["metadata"]["labels"] == labels


def test_pods_are_created_in_the_namespace_with_the_lab_label(
    in_tenant: WorkloadNamespace, tenant_api: FakeApi
) -> None:
    created = tenant_api.on("POST", PODS, {"kind": "Pod"})
    in_tenant.submit(cpu_pod("cpu", namespace="elsewhere", queue="leaf"))
    meta = created.requests[0].body["metadata"]
    assert meta["namespace"] == "ns"
    assert meta["labels"] == {"kai.scheduler/queue": "leaf", "kailab": "demo"}


def test_running_pods_of_a_tenant_are_found_on_the_host_by_virtual_names(
    in_tenant: WorkloadNamespace, host_api: FakeApi
) -> None:
    host_api.on("GET", ALL_PODS, listing(synced("b", "Running"), synced("a")), query=SELECTOR)
    host_api.on("GET", ALL_PODS, Stream(("MODIFIED", synced("a", "Running"))))
    a, b = in_tenant.running("a", "b", timeout=5)
    assert (a.name, b.name) == ("a-x-ns-x-ml", "b-x-ns-x-ml")


def test_inside_reads_the_tenant(in_tenant: WorkloadNamespace, tenant_api: FakeApi) -> None:
    tenant_api.on("GET", PODS, listing(pod("a", "Running")))
    tenant_api.on("GET", PODS, Stream())
    (a,) = in_tenant.inside(lambda view: view.ready, "a", what="Ready")
    assert a.name == "a"


@pytest.fixture(autouse=True)
def _no_explanation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the explanation of a failed wait, which the tests of lab.explain cover."""
    monkeypatch.setattr("lab.workloads.namespace.wait_evidence", lambda *_: [])


def test_wait_stops_at_a_failed_pod(on_host: WorkloadNamespace, host_api: FakeApi) -> None:
    refused = pod("a", "Failed", status={"reason": "UnexpectedAdmissionError"})
    host_api.on("GET", PODS, listing(refused))
    host_api.on("GET", PODS, Stream())
    host_api.on("GET", EVENTS, listing())
    with pytest.raises(WaitTimeout, match="UnexpectedAdmissionError") as caught:
        on_host.running("a", timeout=60)
    assert "pods a: Ready on the host" in caught.value.what


def test_wait_stops_when_another_client_deletes_a_pod(on_host: WorkloadNamespace, host_api: FakeApi) -> None:
    host_api.on("GET", PODS, listing(pod("a"), pod("b")))
    host_api.on("GET", PODS, Stream(("DELETED", pod("a"))))
    host_api.on("GET", EVENTS, listing())
    with pytest.raises(WaitTimeout, match="deleted by another client: a"):
        on_host.running("a", "b", timeout=60)


def test_event_matches_pod_and_reason(on_host: WorkloadNamespace, host_api: FakeApi) -> None:
    def event(reason: str) -> Json:
        meta = {"name": reason.lower(), "namespace": "ns", "uid": reason, "resourceVersion": "1"}
        return {"kind": "Event", "metadata": meta, "reason": reason, "source": {"component": "kai-scheduler"}}

    host_api.on("GET", EVENTS, listing(event("Pulled")), query={"fieldSelector": "involvedObject.uid=uid-a"})
    host_api.on("GET", EVENTS, Stream(("ADDED", event("Scheduled"))))
    found = on_host.event(PodView.of(pod("a")), "Scheduled", "Unschedulable", timeout=5)
    assert (found.reason, found.reporter) == ("Scheduled", "kai-scheduler")


def test_clear_waits_for_pods_on_both_sides_but_not_for_the_namespace(
    in_tenant: WorkloadNamespace, tenant_api: FakeApi, host_api: FakeApi
) -> None:
    deleted = tenant_api.on("DELETE", PODS, {"kind": "PodList"})
    tenant_api.on("GET", PODS, listing(pod("a")))
    tenant_api.on("GET", PODS, Stream(("DELETED", pod("a"))))
    host_api.on("GET", ALL_PODS, listing(synced("a")), query=SELECTOR)
    host_api.on("GET", ALL_PODS, Stream(("DELETED", synced("a"))))
    tenant_api.on("DELETE", "/api/v1/namespaces/ns", {"kind": "Namespace"})
    in_tenant.clear(timeout=5)
    assert deleted.requests[0].body["gracePeriodSeconds"] == 1


def test_clear_deletes_the_namespace_even_if_a_pod_stays(on_host: WorkloadNamespace, host_api: FakeApi) -> None:
    host_api.on("DELETE", PODS, {"kind": "PodList"})
    host_api.on("GET", PODS, listing(pod("a")))
    host_api.on("GET", PODS, Stream())
    host_api.on("GET", EVENTS, listing())
    deleted = host_api.on("DELETE", "/api/v1/namespaces/ns", {"kind": "Namespace"})
    with pytest.raises(WaitTimeout, match="pods of ns are gone"):
        on_host.clear(timeout=0.1)
    assert deleted.requests


def test_only_the_named_pods_are_removed(on_host: WorkloadNamespace, host_api: FakeApi) -> None:
    host_api.on("DELETE", f"{PODS}/a", {"kind": "Pod"})
    host_api.on("GET", PODS, listing(pod("a"), pod("b")))
    host_api.on("GET", PODS, Stream(("DELETED", pod("a"))))
    on_host.remove("a", timeout=5)


def test_empty_deletes_the_configured_kinds_with_the_pods(on_host: WorkloadNamespace, host_api: FakeApi) -> None:
    pods = host_api.on("DELETE", PODS, {"kind": "PodList"})
    groups = host_api.on("DELETE", GROUPS, {"kind": "PodGroupList"})
    host_api.on("GET", PODS, listing(pod("a")))
    host_api.on("GET", PODS, Stream(("DELETED", pod("a"))))
    replace(on_host, grace=0, with_pods=("PodGroup",)).empty(timeout=5)
    assert pods.requests[0].body["gracePeriodSeconds"] == 0
    assert "gracePeriodSeconds" not in groups.requests[0].body


def test_look_reads_environment_and_devices_of_the_container(on_host: WorkloadNamespace, host_api: FakeApi) -> None:
    devices = "/dev/nvidia-uvm\n/dev/nvidia1\n/dev/nvidiactl\n"
    text = f"PATH=/bin\nNVIDIA_VISIBLE_DEVICES=GPU-1\n--- devices\n{devices}"
    host_api.on("GET", f"{PODS}/a", pod("a", "Running"))
    host_api.exec_answer = ExecOutcome(out=text, err="", status={"status": "Success"})
    inside = on_host.look(PodView.of(pod("a", "Running")))
    assert inside.gpus == ("/dev/nvidia1",)
    assert inside.visible == ("GPU-1",)
    assert len(inside.devices) == 3


@pytest.mark.parametrize(
    ("value", "visible"),
    [("", ()), ("GPU-1,GPU-2", ("GPU-1", "GPU-2")), ("k8s.device-plugin.nvidia.com/gpu=GPU-1", ("GPU-1",))],
)
def test_visible_devices_come_from_the_variable(value: str, visible: tuple[str, ...]) -> None:
    assert Inside({"NVIDIA_VISIBLE_DEVICES": value}, ()).visible == visible


def test_a_container_without_gpus_sees_nothing() -> None:
    inside = Inside.of("PATH=/bin\nMULTI=a=b\n--- devices\n")
    assert (inside.devices, inside.gpus, inside.visible) == ((), (), ())
    assert inside.env == {"PATH": "/bin", "MULTI": "a=b"}


def test_gpu_pods_get_the_runtime_class_of_the_cluster() -> None:
    def class_of(name: str | None, doc: Json) -> str | None:
        spec = as_cluster_has(doc, name, "mirror.example/probe:2")["spec"]
        found: str | None = spec.get("template", {}).get("spec", spec).get("runtimeClassName")
        return found

    pod = gpu_pod("a")
    assert class_of("nvidia-cdi", pod) == class_of("nvidia-cdi", deployment("b", pod)) == "nvidia-cdi"
    assert class_of(None, pod) is class_of(None, deployment("b", pod)) is None
    assert pod["spec"]["runtimeClassName"] == "nvidia"
    assert class_of("nvidia", cpu_pod("c")) is None
    (container,) = as_cluster_has(pod, None, "mirror.example/probe:2")["spec"]["containers"]
    assert container["image"] == "mirror.example/probe:2"


def test_pods_in_a_cluster_of_others_have_its_image_class_and_pull_secrets() -> None:
    api = FakeApiServer()
    api.put("Secret", "login", "default", type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": "e30="})
    supply = {"mirrors": {"registry.kailab.dev": "mirror.example/x"}, "pullSecrets": ["login"]}
    spec = lab_spec(cluster=EXISTING, supply=supply)
    space = WorkloadNamespace("demo", api.cluster, api.cluster, "t-1").on(spec)
    space.submit(gpu_pod("a"), deployment("b", gpu_pod("b")))
    alone, template = (api.calls_of("create")[n].body["spec"] for n in (-2, -1))
    for pods in (alone, template["template"]["spec"]):
        assert pods["containers"][0]["image"] == "mirror.example/x/probe:2"
        assert pods["imagePullSecrets"] == [{"name": "login"}]
        assert "runtimeClassName" not in pods
    assert api.get("Secret", "login", "t-1") is not None

    # the service account of vCluster has the secrets
    inside = WorkloadNamespace("demo", api.cluster, FakeApiServer().cluster, "t-2", tenant="ml").on(spec)
    assert (inside.image, inside.pull_secrets) == ("mirror.example/x/probe:2", ())
    assert api.get("Secret", "login", "t-2") is None
    own = WorkloadNamespace("demo", api.cluster, api.cluster, "t-3")
    assert own.on(lab_spec()) is own


def test_pod_waits_for_the_service_account_of_its_namespace(on_host: WorkloadNamespace, host_api: FakeApi) -> None:
    message = 'pods "a" is forbidden: error looking up service account ns/default: serviceaccount "default" not found'
    refused = {"kind": "Status", "message": message}
    created = host_api.on("POST", PODS, (403, refused), pod("a"))
    on_host.submit(cpu_pod("a"))
    assert len(created.requests) == 2
