"""Permissions: what is asked, what is missing, and the roles for it."""

from __future__ import annotations

from typing import Any

import pytest

from lab.errors import ApiFailed
from lab.kube.access_review import Permission, dry_run, for_documents, missing, role, user_of
from tests.support.access_reviews import permit
from tests.support.builders import queue
from tests.support.fake_api_server import FakeApiServer

RBAC = "rbac.authorization.k8s.io"
QUEUES = ("scheduling.run.ai", "queues")
CLUSTER_ROLE = {
    "apiVersion": f"{RBAC}/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "lab"},
    "rules": [
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ],
}


def binding(to: str, kind: str = "ClusterRole") -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "lab", "namespace": "ns"},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": to},
    }


def config_map(namespace: str = "ns") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": namespace}}


def test_missing_asks_each_permission_once() -> None:
    api = FakeApiServer()
    asked = permit(api, lambda one: one.verb == "get")
    get, exec_ = Permission("get", "", "pods", "ns", "a"), Permission("create", "", "pods/exec", "ns")
    url = Permission("get", "", "/metrics")
    assert missing(api.cluster, [get, exec_, get, url]) == (exec_,)
    assert sorted(asked) == sorted([get, exec_, url])


def test_a_permission_in_words() -> None:
    assert str(Permission("delete", *QUEUES, name="lab")) == "delete queues.scheduling.run.ai lab"
    assert str(Permission("create", "", "pods/exec", "ns")) == "create pods/exec in ns"


def test_role_merges_verbs_resources_and_names() -> None:
    api = FakeApiServer()
    permit(api, lambda _: True)
    api.put("Namespace", "ns")
    wanted = [
        *(Permission(verb, *QUEUES) for verb in ("watch", "list")),
        *(Permission(verb, *QUEUES, name=name) for name in ("lab", "lab-a") for verb in ("get", "patch")),
        Permission("get", "", "/metrics"),
        *(Permission("create", "", plural, "ns") for plural in ("pods", "configmaps")),
    ]
    cluster_role, cluster_binding, own, own_binding = role(api.cluster, wanted, "kailab-x")
    assert cluster_role["rules"] == [
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        {
            "apiGroups": ["scheduling.run.ai"],
            "resources": ["queues"],
            "resourceNames": ["lab", "lab-a"],
            "verbs": ["get", "patch"],
        },
        {"apiGroups": ["scheduling.run.ai"], "resources": ["queues"], "verbs": ["list", "watch"]},
    ]
    assert own["rules"] == [{"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": ["create"]}]
    assert own["metadata"] == {"name": "kailab-x", "namespace": "ns"}
    assert [doc["kind"] for doc in (cluster_role, cluster_binding, own, own_binding)] == [
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    ]
    assert cluster_binding["subjects"] == [{"apiGroup": RBAC, "kind": "User", "name": "jane"}]
    assert own_binding["roleRef"] == {"apiGroup": RBAC, "kind": "Role", "name": "kailab-x"}


def test_role_keeps_urls_apart_from_resources_with_the_same_verb() -> None:
    api = FakeApiServer()
    permit(api, lambda _: True)
    made, _ = role(api.cluster, [Permission("get", "", "pods"), Permission("get", "", "/metrics")])
    assert made["rules"] == [
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    ]


def test_role_of_a_service_account_and_of_nothing() -> None:
    api = FakeApiServer()
    permit(api, lambda _: True, user="system:serviceaccount:ci:runner")
    assert user_of(api.cluster) == "system:serviceaccount:ci:runner"
    _, bound = role(api.cluster, [Permission("get", "", "nodes")])
    assert bound["subjects"] == [{"kind": "ServiceAccount", "namespace": "ci", "name": "runner"}]
    assert role(api.cluster, []) == []


def test_role_in_a_namespace_that_is_to_come() -> None:
    """An administrator who applies the roles creates the lab's own namespaces; Helm creates a chart's."""
    api = FakeApiServer()
    permit(api, lambda _: True)
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "own", "labels": {"kailab": "demo"}}}
    of_chart = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "chart"}}
    wanted = [Permission("create", "", "pods", space) for space in ("own", "chart")]
    space, everywhere, _, inside, _ = role(api.cluster, wanted, docs=[own, of_chart])
    assert (space, everywhere["kind"], inside["metadata"]["namespace"]) == (own, "ClusterRole", "own")
    assert everywhere["rules"] == inside["rules"]


def test_documents_need_six_verbs() -> None:
    api = FakeApiServer()
    needed = for_documents(api.cluster, [queue("lab"), config_map()])
    assert needed[:6] == (
        *(Permission(verb, *QUEUES, name="lab") for verb in ("get", "patch", "delete")),
        *(Permission(verb, *QUEUES) for verb in ("list", "watch", "create")),
    )
    assert {(one.group, one.resource, one.namespace) for one in needed[6:]} == {("", "configmaps", "ns")}


def test_kinds_of_new_crds_are_known_and_others_are_refused() -> None:
    api = FakeApiServer()
    names = {"kind": "Widget", "plural": "widgets"}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.x.y"},
        "spec": {"group": "x.y", "names": names, "scope": "Namespaced", "versions": [{"name": "v1"}]},
    }
    widget = {"apiVersion": "x.y/v1", "kind": "Widget", "metadata": {"name": "w"}}
    assert Permission("patch", "x.y", "widgets", "default", "w") in for_documents(api.cluster, [widget, crd])
    with pytest.raises(ApiFailed, match="no kind Widget"):
        for_documents(api.cluster, [widget])


def test_a_role_needs_what_it_grants_unless_the_user_may_escalate() -> None:
    rights = {Permission(verb, "", plural) for verb in ("get", "list") for plural in ("pods", "nodes")}
    rights.add(Permission("get", "", "/metrics"))
    for escalates in (False, True):
        api = FakeApiServer()
        permit(api, lambda one, may=escalates: may and one.verb == "escalate")
        needed = set(for_documents(api.cluster, [CLUSTER_ROLE, binding("lab")]))
        assert needed & rights == (set() if escalates else rights)
        assert not {"bind", "escalate"} & {one.verb for one in needed}


def test_a_binding_to_an_existing_role_needs_bind_or_what_it_grants() -> None:
    bind = Permission("bind", RBAC, "clusterroles", "ns", "lab")
    for held in (False, True):
        api = FakeApiServer(CLUSTER_ROLE)
        permit(api, lambda one, may=held: may and one.verb != "bind")
        assert (bind in for_documents(api.cluster, [binding("lab")])) is not held
    api = FakeApiServer()
    permit(api, lambda _: False)
    assert bind in for_documents(api.cluster, [binding("lab")])  # unreadable or missing


def test_dry_run_stores_nothing_and_separates_what_cannot_be_tried() -> None:
    api = FakeApiServer()
    api.fail("apply", "Queue", (403, "queues is forbidden"))
    api.fail("apply", "ConfigMap", (404, 'namespaces "ns" not found'))
    widget = {"apiVersion": "x.y/v1", "kind": "Widget", "metadata": {"name": "w"}}
    found = dry_run(api.cluster, [queue("lab"), config_map(), widget, {**config_map("other")}])
    assert found.problems == ("Queue lab: queues is forbidden (HTTP 403)",)
    assert found.not_tried == (
        'ConfigMap ns/c: namespaces "ns" not found (HTTP 404)',
        "Widget w: the API server has no kind Widget (x.y/v1)",
    )
    assert not api.objects
    assert all(call.query["dryRun"] == "All" for call in api.calls_of("apply"))


def test_dry_run_raises_when_the_server_is_gone() -> None:
    api = FakeApiServer()
    api.alive = False
    with pytest.raises(ApiFailed, match="does not answer"):
        dry_run(api.cluster, [queue("lab")])
