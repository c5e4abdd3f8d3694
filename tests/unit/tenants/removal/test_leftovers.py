from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from lab.tenants.removal.leftovers import cluster_scope, in_cluster, marker, on_machine, role_names
from tests.support.fakes import FakeRunner
from tests.support.removal_world import BY_HELM, RESERVATIONS, SPACE, RemovalWorld, node, pod, reservation
from tests.support.specs import tenant_spec

MARKER = {"vcluster.loft.sh/managed-by": f"{SPACE}-x-team-a"}
SYNCED = {"vcluster.loft.sh/managed-by": "team-a"}
LAB = {"kailab.dev/tenant": "team-a"}


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path) -> RemovalWorld:
    """A host with objects of every kind, none of ``team-a``."""
    world = RemovalWorld(runner, tmp_path, tenant_spec())
    host = world.api
    world.ctx.journal.released("port", "team-a")
    world.ctx.journal.owns("port", "spare-0", "tenant:team-a", host="41000", node="30440")
    world.ctx.journal.owns("file", "/x/tenant-team-b.kubeconfig", "tenant:team-b")
    host.put("Namespace", "vcluster-team-b", metadata={"labels": {"kailab": "demo"}})
    host.put("ClusterRole", "vc-team-b-v-vcluster-team-b", metadata=release("team-b"))
    host.put("ClusterRoleBinding", "vc-team-b-v-vcluster-team-b", **subjects("vcluster-team-b"))
    host.put("ValidatingWebhookConfiguration", "kai", webhooks=[hook("kai-scheduler"), {"clientConfig": {"url": "x"}}])
    host.put("APIService", "v1.apps", spec={"service": None})
    host.put("PriorityClass", "train")
    host.put("PersistentVolume", "disk", spec={"claimRef": {"namespace": "vcluster-team-b"}})
    host.add(node("worker", tenant="team-b"))
    host.add(reservation("gpu-reservation-1", "g1"))
    host.add(pod("web", "vcluster-team-b", labels={"vcluster.loft.sh/managed-by": "team-b"}))
    return world


def leftovers(world: RemovalWorld, groups: Collection[str] = ()) -> tuple[str, ...]:
    return (*in_cluster(world.api.cluster, "team-a", groups), *on_machine(world.ctx, "team-a"))


def release(name: str) -> dict[str, Any]:
    return {"labels": {"app": "vcluster", "release": name}}


def subjects(namespace: str) -> dict[str, Any]:
    return {"subjects": [{"kind": "User", "name": "x"}, {"kind": "ServiceAccount", "namespace": namespace}]}


def hook(namespace: str) -> dict[str, Any]:
    return {"name": "x", "clientConfig": {"service": {"namespace": namespace, "name": "y"}}}


def test_clean_host_has_no_leftovers(world: RemovalWorld) -> None:
    assert leftovers(world, groups={"g2"}) == ()


@pytest.mark.parametrize(
    ("kind", "name", "more", "line"),
    [
        (
            "ClusterRole",
            f"vc-team-a-v-{SPACE}",
            {"metadata": {"annotations": BY_HELM}},
            f"ClusterRole vc-team-a-v-{SPACE}",
        ),
        (
            "ClusterRole",
            f"vc-mn-team-a-v-{SPACE}",
            {"metadata": {"annotations": BY_HELM}},
            f"ClusterRole vc-mn-team-a-v-{SPACE}",
        ),
        ("ClusterRole", "another", {"metadata": release("team-a")}, "ClusterRole another"),
        (
            "ClusterRoleBinding",
            f"vc-team-a-v-{SPACE}",
            {"metadata": {"annotations": BY_HELM}},
            f"ClusterRoleBinding vc-team-a-v-{SPACE}",
        ),
        ("ClusterRoleBinding", "by-hand", subjects(SPACE), "ClusterRoleBinding by-hand"),
        (
            "MutatingWebhookConfiguration",
            "hooks",
            {"webhooks": [hook("x"), hook(SPACE)]},
            f"MutatingWebhookConfiguration hooks calls a Service in {SPACE}",
        ),
        (
            "ValidatingWebhookConfiguration",
            "hooks",
            {"webhooks": [hook(SPACE)]},
            f"ValidatingWebhookConfiguration hooks calls a Service in {SPACE}",
        ),
        (
            "APIService",
            "v1.x.io",
            {"spec": {"service": {"namespace": SPACE}}},
            f"APIService v1.x.io is served from {SPACE}",
        ),
        ("PriorityClass", "a", {"metadata": {"labels": MARKER}}, "PriorityClass a"),
        ("RuntimeClass", "a", {"metadata": {"labels": MARKER}}, "RuntimeClass a"),
        ("StorageClass", "a", {"metadata": {"labels": MARKER}}, "StorageClass a"),
        ("IngressClass", "a", {"metadata": {"labels": MARKER}}, "IngressClass a"),
        ("PersistentVolume", "a", {"metadata": {"labels": MARKER}}, "PersistentVolume a"),
        (
            "PersistentVolume",
            "kept",
            {"spec": {"claimRef": {"namespace": SPACE}}},
            f"PersistentVolume kept was claimed from {SPACE}",
        ),
        ("CustomResourceDefinition", "a.x.io", {"metadata": {"labels": LAB}}, "CustomResourceDefinition a.x.io"),
        ("Queue", "a", {"metadata": {"labels": LAB}}, "Queue a"),
    ],
)
def test_cluster_wide_leftovers(world: RemovalWorld, kind: str, name: str, more: dict[str, Any], line: str) -> None:
    world.api.put(kind, name, **more)
    assert cluster_scope(world.api.cluster, "team-a") == (line,)
    assert leftovers(world) == (line,)


@pytest.mark.parametrize("kind", ["Pod", "Service", "ConfigMap", "Secret", "PersistentVolumeClaim", "Ingress"])
def test_synced_objects_in_any_namespace_are_leftovers(world: RemovalWorld, kind: str) -> None:
    world.api.put(kind, "x", "elsewhere", metadata={"labels": SYNCED})
    assert leftovers(world) == (f"{kind} elsewhere/x",)


def test_vcluster_of_the_same_name_in_another_namespace_is_not_the_tenant(world: RemovalWorld) -> None:
    world.api.put("Service", "team-a", "elsewhere", metadata={"labels": {"app": "vcluster"}})
    world.api.put("ConfigMap", "x", "elsewhere", metadata={"labels": SYNCED})
    world.api.put("ClusterRole", "vc-team-a-v-elsewhere", metadata=release("team-a"))
    assert leftovers(world) == ()


def test_namespace_is_a_leftover_with_its_phase(world: RemovalWorld) -> None:
    world.api.put("Namespace", SPACE, status={"phase": "Terminating"})
    # its content is deleted with it and not listed
    world.api.put("ConfigMap", "x", SPACE, metadata={"labels": SYNCED})
    assert leftovers(world) == (f"Namespace {SPACE} (Terminating)",)
    assert cluster_scope(world.api.cluster, "team-a") == ()


def test_marks_on_nodes_are_leftovers(world: RemovalWorld) -> None:
    world.api.add(node("worker2", tenant="team-a"))
    only_taint = node("worker3", tenant="team-a")
    del only_taint["metadata"]["labels"]["kailab.dev/tenant"]
    world.api.add(only_taint)
    lines = [f"Node {name} is marked kailab.dev/tenant=team-a" for name in ("worker2", "worker3")]
    assert list(leftovers(world)) == lines


def test_reservation_pods_of_the_host_kai_are_leftovers(world: RemovalWorld) -> None:
    assert leftovers(world, groups={"g1", "g3"}) == (f"Pod {RESERVATIONS}/gpu-reservation-1 reserves a GPU for it",)


def test_files_and_journal_entries_are_leftovers(world: RemovalWorld) -> None:
    path = world.paths.tenant_kubeconfig("team-a")
    path.write_text("x")
    world.ctx.journal.owns("file", str(path), "tenant:team-a")
    world.ctx.journal.owns("port", "team-a", "cluster", host="1", node="2")
    world.ctx.journal.owns("release", "kai-scheduler", "kai:team-a")
    assert leftovers(world) == (
        f"file {path}",
        f"journal entry file {path}",
        "journal entry port team-a",
        "journal entry release kai-scheduler",
    )


def test_long_names_are_truncated_like_vcluster_does() -> None:
    assert marker("team-a") == "vcluster-team-a-x-team-a"
    name = "a-team-with-a-name-of-thirty-x"
    assert marker(name) == "vcluster-a-team-with-a-name-of-thirty-x-x-a-team-wit-837a2992c6"
    assert role_names(name)[0] == f"vc-{name}-v-vcluster-{name}"[:63].removesuffix("-")
    assert len(marker(name)) == 63
