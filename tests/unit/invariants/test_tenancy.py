"""Rules on tenants."""

from __future__ import annotations

from tests.support.invariants_world import breaches, copy_of, pod, pod_group, queue, reservation, world

OWN = pod("web", scheduler="default-scheduler")


def test_each_pod_of_a_tenant_has_its_copy() -> None:
    assert breaches("tenant-own-pods", copy_of(OWN, "ml"), tenants={"ml": world(OWN)}) == []
    (breach,) = breaches("tenant-own-pods", tenants={"ml": world(OWN)})
    assert breach.what == "tenant ml sees pod t/web, but the host has no copy of it"


def test_a_copy_that_belongs_to_another_tenant() -> None:
    (breach,) = breaches("tenant-own-pods", copy_of(OWN, "ops"), tenants={"ml": world(OWN)})
    assert "its copy belongs to tenant ops" in breach.what
    assert breach.evidence[1].startswith("host: pod vc-ops/web-x-t-x-ops (t/web of tenant ops)")


def test_pods_that_wait_or_go_need_no_copy() -> None:
    passing = [pod("a", on=""), pod("b", deleting=True), pod("c", phase="Succeeded")]
    assert breaches("tenant-own-pods", tenants={"ml": world(*passing)}) == []


def test_a_copy_of_another_uid_is_found_by_its_name() -> None:
    older = copy_of(OWN, "ml", **{"vcluster.loft.sh/object-uid": "other"})
    assert breaches("tenant-own-pods", older, tenants={"ml": world(OWN)}) == []


def test_a_namespace_of_the_host_is_one_tenants() -> None:
    mine, other = copy_of(OWN, "ml"), copy_of(OWN, "ops")
    assert breaches("tenants-apart", mine, other, pod("plain")) == []
    other["metadata"]["namespace"] = "vc-ml"
    (breach,) = breaches("tenants-apart", mine, other)
    assert breach.what == "namespace vc-ml has pods of tenants ml, ops"


def test_a_tenant_sees_nothing_of_the_hosts_kai() -> None:
    seen = world(queue("q"), pod_group("pg"), reservation())
    found = breaches("tenant-no-host-kai", tenants={"ml": seen, "ops": world()})
    assert [breach.subject for breach in found] == ["ml Pod", "ml Queue", "ml PodGroup"]
    assert breaches("tenant-no-host-kai", tenants={"ml": seen}, own_kai=("ml",)) == []
