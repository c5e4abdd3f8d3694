"""Rules on tenants."""

from __future__ import annotations

from tests.support.invariants_world import breaches, copy_of, pod, pod_group, queue, reservation, world

OWN = pod("web", scheduler="default-scheduler")


def test_tenant_pod_without_a_host_pod_is_a_breach() -> None:
    assert breaches("tenant-own-pods", copy_of(OWN, "ml"), tenants={"ml": world(OWN)}) == []
    (breach,) = breaches("tenant-own-pods", tenants={"ml": world(OWN)})
    assert breach.what == "tenant ml sees pod t/web, but the host has no copy of it"


def test_host_pod_of_another_tenant_is_a_breach() -> None:
    (breach,) = breaches("tenant-own-pods", copy_of(OWN, "ops"), tenants={"ml": world(OWN)})
    assert "its copy belongs to tenant ops" in breach.what
    assert breach.evidence[1].startswith("host: pod vc-ops/web-x-t-x-ops (t/web of tenant ops)")


def test_unbound_ended_and_deleted_pods_need_no_host_pod() -> None:
    exempt = [pod("a", on=""), pod("b", deleting=True), pod("c", phase="Succeeded")]
    assert breaches("tenant-own-pods", tenants={"ml": world(*exempt)}) == []


def test_host_pod_with_another_uid_is_found_by_name() -> None:
    older = copy_of(OWN, "ml", **{"vcluster.loft.sh/object-uid": "other"})
    assert breaches("tenant-own-pods", older, tenants={"ml": world(OWN)}) == []


def test_host_namespace_with_pods_of_two_tenants_is_a_breach() -> None:
    own, other = copy_of(OWN, "ml"), copy_of(OWN, "ops")
    assert breaches("tenants-apart", own, other, pod("plain")) == []
    other["metadata"]["namespace"] = "vc-ml"
    (breach,) = breaches("tenants-apart", own, other)
    assert breach.what == "namespace vc-ml has pods of tenants ml, ops"


def test_objects_of_the_host_kai_in_a_tenant_are_a_breach() -> None:
    seen = world(queue("q"), pod_group("pg"), reservation())
    found = breaches("tenant-no-host-kai", tenants={"ml": seen, "ops": world()})
    assert [breach.subject for breach in found] == ["ml Pod", "ml Queue", "ml PodGroup"]
    assert breaches("tenant-no-host-kai", tenants={"ml": seen}, own_kai=("ml",)) == []
