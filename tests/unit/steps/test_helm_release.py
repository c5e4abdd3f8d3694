"""Objects of Helm releases that a cluster lacks."""

from __future__ import annotations

from lab.steps.helm_release import installed, missing_objects, restart_crashed
from tests.support.builders import release_secret
from tests.support.fake_api_server import FakeApiServer

BY_HELM = {"labels": {"app.kubernetes.io/managed-by": "Helm"}}
MANIFEST = """
apiVersion: v1
kind: Service
metadata: {name: one}
---
apiVersion: v1
kind: Service
metadata: {name: two, namespace: elsewhere}
---
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: role}
---
apiVersion: widgets.example.com/v1
kind: Widget
metadata: {name: wheel}
"""


def test_missing_objects_are_named_with_one_request_for_each_kind_and_namespace() -> None:
    api = FakeApiServer(release_secret("app", "space", {}, version="1", manifest=MANIFEST))
    release = installed(api.cluster, "app", "space")
    assert release is not None
    gone = "is missing"
    widget = "Widget wheel is missing, with its CRD"
    assert missing_objects(api.cluster, release) == (
        f"Service space/one {gone}",
        f"Service elsewhere/two {gone}",
        f"ClusterRole role {gone}",
        widget,
    )
    api.put("Service", "one", "space", metadata=BY_HELM)
    api.put("Service", "two", "elsewhere")  # of others
    api.put("ClusterRole", "role", metadata=BY_HELM)
    api.calls.clear()
    assert missing_objects(api.cluster, release) == (f"Service elsewhere/two {gone}", widget)
    assert [(call.kind, call.namespace) for call in api.calls_of("list")] == [
        ("Service", "space"),
        ("Service", "elsewhere"),
        ("ClusterRole", ""),
    ]


def pod(name: str, reason: str, **metadata: object) -> dict[str, object]:
    waiting = {"name": "main", "restartCount": 5, "state": {"waiting": {"reason": reason}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "space", "labels": {"app": "main"}, **metadata},
        "spec": {"containers": [{"name": "main", "image": "main"}]},
        "status": {"phase": "Running", "containerStatuses": [waiting]},
    }


def test_only_pods_that_wait_after_a_crash_are_restarted() -> None:
    other = pod("other", "CrashLoopBackOff", labels={"app": "other"})
    api = FakeApiServer(pod("crashed", "CrashLoopBackOff"), pod("pulling", "ImagePullBackOff"), other)
    restart_crashed(api.cluster, "space", "app=main")
    assert sorted(one["metadata"]["name"] for one in api.of_kind("Pod")) == ["other", "pulling"]
