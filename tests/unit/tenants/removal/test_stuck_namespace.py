from __future__ import annotations

from typing import Any

import pytest

from lab.errors import WaitTimeout
from lab.tenants.removal.stuck_namespace import StuckNamespace, diagnose, stuck_namespace
from tests.support.fake_api_server import FakeApiServer
from tests.support.removal_world import SPACE, node, pod

Json = dict[str, Any]

# Messages of Kubernetes 1.34 (pkg/controller/namespace/deletion/status_condition_utils.go).
FINE = [
    ("NamespaceDeletionDiscoveryFailure", "False", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "False", "All legacy kube types successfully parsed"),
    ("NamespaceDeletionContentFailure", "False", "All content successfully deleted, may be waiting on finalization"),
]
DISCOVERY = "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: "
REMAINING = "widgets.example.com has 2 resource instances"
FINALIZERS = "Some content in the namespace has finalizers remaining: example.com/guard in 2 resource instances"


@pytest.fixture
def host() -> FakeApiServer:
    host = FakeApiServer()
    host.serve("Widget", "example.com/v1", "widgets")
    host.put("APIService", "v1.apps", status=available("True", "Local", "API is served locally"))
    host.add(node("worker"))
    return host


def available(status: str, reason: str, message: str) -> Json:
    return {"conditions": [{"type": "Available", "status": status, "reason": reason, "message": message}]}


def terminating(host: FakeApiServer, *conditions: tuple[str, str, str], **metadata: Any) -> None:
    rows = [{"type": kind, "status": status, "message": message} for kind, status, message in conditions]
    host.put(
        "Namespace",
        SPACE,
        metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", **metadata},
        spec={"finalizers": ["kubernetes"]},
        status={"phase": "Terminating", "conditions": rows},
    )


def diagnosis(host: FakeApiServer) -> tuple[str, ...]:
    return diagnose(host.cluster, SPACE)


def failure(host: FakeApiServer) -> StuckNamespace:
    return stuck_namespace(host.cluster, SPACE, 60)


def test_absent_or_active_namespace_is_not_stuck(host: FakeApiServer) -> None:
    assert diagnosis(host) == ()
    host.put("Namespace", SPACE, status={"phase": "Active"})
    assert diagnosis(host) == ()


def test_objects_with_finalizers_are_named(host: FakeApiServer) -> None:
    terminating(
        host,
        *FINE,
        ("NamespaceContentRemaining", "True", f"Some resources are remaining: {REMAINING}"),
        ("NamespaceFinalizersRemaining", "True", FINALIZERS),
    )
    for name in ("one", "two"):
        host.put("Widget", name, SPACE, metadata={"finalizers": ["example.com/guard"], "deletionTimestamp": "x"})
    host.put("ConfigMap", "other", SPACE)
    assert diagnosis(host) == (
        f"NamespaceContentRemaining: Some resources are remaining: {REMAINING}",
        f"NamespaceFinalizersRemaining: {FINALIZERS}",
        f"Widget {SPACE}/one has the finalizer example.com/guard",
        f"Widget {SPACE}/two has the finalizer example.com/guard",
    )
    error = failure(host)
    assert isinstance(error, WaitTimeout)
    assert error.exit_code == 6
    assert error.fix == (
        "start the controller that removes the finalizer example.com/guard:"
        f" {host.cluster.kubectl('get', 'widget', 'one', '-n', SPACE, '-o', 'yaml')}"
    )


def test_pods_are_named_with_the_state_of_their_nodes(host: FakeApiServer) -> None:
    terminating(
        host,
        *FINE,
        ("NamespaceContentRemaining", "True", "Some resources are remaining: pods. has 3 resource instances"),
    )
    lost = node("worker2")
    lost["status"]["conditions"][0]["status"] = "Unknown"
    host.add(lost)
    for name, where in (("slow", "worker"), ("stuck", "worker2"), ("orphan", "worker9")):
        doc = pod(name, node=where)
        doc["metadata"] |= {"deletionTimestamp": "x", "deletionGracePeriodSeconds": 30}
        host.add(doc)
    assert diagnosis(host)[1:] == (
        f"Pod {SPACE}/slow: being deleted with 30 s of grace, its node worker is Ready",
        f"Pod {SPACE}/stuck: being deleted with 30 s of grace, its node worker2 is not Ready",
        f"Pod {SPACE}/orphan: being deleted with 30 s of grace, its node worker9 is gone",
    )
    assert failure(host).fix == f"inspect the namespace: {host.cluster.kubectl('describe', 'namespace', SPACE)}"


def test_unavailable_api_is_named_with_its_service(host: FakeApiServer) -> None:
    absent, backend = 'service/metrics in "vcluster-old" is not present', "vcluster-old/metrics"
    stale = "metrics.example.com/v1: stale GroupVersion discovery: metrics.example.com/v1"
    terminating(host, ("NamespaceDeletionDiscoveryFailure", "True", DISCOVERY + stale))
    host.put(
        "APIService",
        "v1.metrics.example.com",
        spec={"service": {"namespace": "vcluster-old", "name": "metrics"}},
        status=available("False", "ServiceNotFound", absent),
    )
    assert diagnosis(host) == (
        f"NamespaceDeletionDiscoveryFailure: {DISCOVERY}{stale}",
        f"APIService v1.metrics.example.com is unavailable: ServiceNotFound: {absent}, served by Service {backend}",
    )
    name = "v1.metrics.example.com"
    delete = host.cluster.kubectl("delete", "apiservice", name)
    assert failure(host).fix == f"delete the API, which has no server any more: {delete}"
    host.put("Namespace", "vcluster-old")
    assert failure(host).fix == f"make the API available: {host.cluster.kubectl('describe', 'apiservice', name)}"


def test_unrelated_unavailable_api_is_not_the_suggested_fix(host: FakeApiServer) -> None:
    message = "Some resources are remaining: widgets.example.com has 1 resource instances"
    terminating(host, *FINE, ("NamespaceContentRemaining", "True", message))
    host.put("Widget", "one", SPACE, metadata={"finalizers": ["example.com/guard"]})
    host.put("Namespace", "existing")
    host.put(
        "APIService",
        "v1.x.io",
        spec={"service": {"namespace": "existing", "name": "x"}},
        status=available("False", "MissingEndpoints", "no endpoints"),
    )
    assert failure(host).fix.startswith("start the controller that removes the finalizer example.com/guard")


def test_finalizers_are_searched_before_the_namespace_has_conditions(host: FakeApiServer) -> None:
    terminating(host, finalizers=["example.com/space"])
    host.put("PersistentVolumeClaim", "data", SPACE, metadata={"finalizers": ["kubernetes.io/pvc-protection"]})
    host.put("Secret", "other", SPACE)
    assert diagnosis(host) == (
        f"Namespace {SPACE} itself has the finalizer example.com/space",
        f"PersistentVolumeClaim {SPACE}/data has the finalizer kubernetes.io/pvc-protection",
    )


def test_long_lists_of_objects_are_truncated(host: FakeApiServer) -> None:
    message = "Some resources are remaining: configmaps. has 30 resource instances"
    terminating(host, ("NamespaceContentRemaining", "True", message))
    for number in range(30):
        host.put("ConfigMap", f"c{number:02}", SPACE)
    lines = diagnosis(host)
    assert lines[-1] == "… and 10 more objects"
    assert lines[1] == f"ConfigMap {SPACE}/c00 still exists"


def test_kind_that_is_no_longer_served_is_left_out(host: FakeApiServer) -> None:
    message = "Some resources are remaining: ghosts.gone.io has 1 resource instances"
    terminating(host, ("NamespaceContentRemaining", "True", message))
    assert diagnosis(host) == (f"NamespaceContentRemaining: {message}",)


def test_resources_in_messages_are_resolved_to_kinds(host: FakeApiServer) -> None:
    kinds = host.cluster.kinds
    assert kinds.kind_for("pods.") == "Pod"
    assert kinds.kind_for("podgroups.scheduling.run.ai") == "PodGroup.scheduling.run.ai"
    assert kinds.kind_for("widgets.example.com") == "Widget.example.com"
