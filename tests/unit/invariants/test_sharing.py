"""Rules on GPUs, nodes, quotas and KAI objects that tenants share with each other and the host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from lab.findings import Finding
from lab.invariants import Scope
from tests.support.fakes import FakeClock
from tests.support.invariants_world import (
    HOST,
    Json,
    breaches,
    broken,
    copy_of,
    lists,
    news,
    node,
    pod,
    pod_group,
    quota,
    reservation,
    share,
    watched,
    world,
)

ML = copy_of(reservation("g-ml", "GPU-1"), "ml")
ML_USER = copy_of(share("a", 0.5, "g-ml"), "ml")


def gpu_breaches(*objs: Json, own: Iterable[str] = ("ml", "ops")) -> list[Finding]:
    return breaches("tenant-gpus-apart", *objs, own_kai=own)


def whole(name: str, *uuids: str, **more: Any) -> Json:
    """A pod whose status names the whole GPUs that the kubelet allocated."""
    obj = pod(name, gpus=len(uuids), **more)
    allocated = [{"resourceID": f"{uuid}::0", "health": "Healthy"} for uuid in uuids]
    resource = {"name": "nvidia.com/gpu", "resources": allocated}
    obj["status"]["containerStatuses"] = [{"name": "main", "allocatedResourcesStatus": [resource]}]
    return obj


def deleted(obj: Json) -> Json:
    """A copy of the pod with a deletion timestamp."""
    return {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


# --- GPUs


def test_separate_gpus_are_no_breach() -> None:
    ours = [reservation("g-host", "GPU-2"), share("b", 0.5, "g-host")]
    other = [copy_of(reservation("g-ops", "GPU-3"), "ops"), copy_of(share("c", 0.5, "g-ops"), "ops")]
    assert gpu_breaches(ML, ML_USER, *ours, *other) == []


def test_gpu_used_by_two_tenants() -> None:
    (breach,) = gpu_breaches(ML, ML_USER, copy_of(reservation("g-ops", "GPU-1"), "ops"))
    assert breach.subject == "w1 GPU-1"
    assert breach.what.startswith("GPU GPU-1 of w1 is used by tenant ml and tenant ops, whose schedulers")
    assert len(breach.evidence) == 3
    assert breach.evidence[0].startswith(
        "pod vc-ml/a-x-t-x-ml (t/a of tenant ml): Running, on w1, requests 0.5 of 1 GPU"
    )


def test_gpu_used_by_a_tenant_and_the_host() -> None:
    (breach,) = gpu_breaches(ML, whole("big", "GPU-0", "GPU-1"))
    assert "is used by the host and tenant ml, whose" in breach.what
    (breach,) = gpu_breaches(ML, copy_of(share("c", 0.5, "g-c"), "dev"), reservation("g-c", "GPU-1"))
    assert "is used by the host and tenant ml" in breach.what  # the host's KAI schedules dev's pods


def test_host_pod_in_a_gpu_group_of_a_tenant() -> None:
    (breach,) = gpu_breaches(ML, share("stray", 0.25, "g-ml"))
    stray, reserved = sorted(breach.evidence)
    assert stray.startswith("pod t/stray: Running")
    assert "(kai-resource-reservation/gpu-reservation-g-ml of tenant ml)" in reserved


def test_host_kai_tenants_may_share_a_gpu() -> None:
    users = [copy_of(share(name, 0.5), name) for name in ("dev", "web")]
    assert gpu_breaches(reservation(), *users) == []


def test_failed_pods_use_no_gpu() -> None:
    refused = copy_of(reservation("g-ops", "GPU-1", phase="Failed"), "ops")
    assert gpu_breaches(ML, ML_USER, refused, whole("late", "GPU-1", phase="Failed")) == []


def test_same_uuid_on_two_nodes_is_two_gpus() -> None:
    assert gpu_breaches(ML, copy_of(reservation("g-ops", "GPU-1", on="w2"), "ops"), node(), node("w2")) == []


def test_gpu_used_by_two_tenants_briefly_is_a_violation(clock: FakeClock) -> None:
    other = copy_of(reservation("g-ops", "GPU-1"), "ops")
    host = Scope("", HOST.cluster, own_kai=frozenset({"ml", "ops"}))
    steps = [*lists(ML, ML_USER), 1.0, news("ADDED", other), news("DELETED", other), 1.0]
    assert "tenant-gpus-apart" in broken(watched(clock, *steps, scopes=(host,)))


# --- nodes

NODES = (node("w1"), node("w2", tenant="ml"))


def on_nodes(*objs: Json) -> list[Finding]:
    return breaches("tenant-nodes", *NODES, *objs)


def test_pods_on_their_own_nodes_are_no_breach() -> None:
    assert on_nodes(copy_of(pod("a", on="w2"), "ml"), pod("b", on="w1"), copy_of(pod("c", on="w1"), "dev")) == []


def test_tenant_pod_outside_its_dedicated_nodes() -> None:
    (breach,) = on_nodes(copy_of(pod("a", on="w1"), "ml"))
    assert breach.what == "pod vc-ml/a-x-t-x-ml (t/a of tenant ml) runs on w1, not on its tenant's dedicated nodes (w2)"
    (breach,) = breaches("tenant-nodes", *NODES, node("w3", tenant="ops"), copy_of(pod("a", on="w3"), "ml"))
    assert "runs on w3, which belongs to tenant ops, not on" in breach.what


@pytest.mark.parametrize("other", [pod("b", on="w2"), copy_of(pod("b", on="w2"), "dev")])
def test_other_pod_on_a_dedicated_node(other: Json) -> None:
    (breach,) = on_nodes(other)
    assert breach.what.endswith(" runs on w2, which is dedicated to tenant ml")
    assert breach.evidence[0].endswith("Running, on w2")


def test_pod_that_was_on_the_node_before_its_tenant_takes_no_gpu() -> None:
    """Nodes of an existing cluster have pods of others; the taint does not evict them."""
    assert on_nodes(pod("web", on="w2", scheduler="default-scheduler")) == []
    (breach,) = on_nodes(pod("train", on="w2", gpus=1, scheduler="default-scheduler"))
    assert "which is dedicated to tenant ml" in breach.what


def test_node_level_pods_are_allowed_on_dedicated_nodes() -> None:
    daemon = pod("plugin", namespace="gpu", on="w2")
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "plugin", "controller": True}]
    static = pod("proxy", namespace="other", on="w2")
    static["metadata"]["ownerReferences"] = [{"kind": "Node", "name": "w2", "controller": True}]
    ended = pod("ended", on="w2", phase="Succeeded")
    assert on_nodes(daemon, static, ended, pod("dns", namespace="kube-system", on="w2"), reservation(on="w2")) == []


def test_reassigned_node_has_a_grace_period(clock: FakeClock) -> None:
    left = copy_of(pod("a", on="w2", scheduler="default-scheduler"), "ml")
    host = Scope("", HOST.cluster)
    start = [*lists(*NODES, left), 1.0, news("MODIFIED", node("w2")), 5.0]
    assert broken(watched(clock, *start, news("DELETED", left), 30.0, scopes=(host,))) == []
    other = [*lists(*NODES, pod("b", on="w2")), 25.0]
    assert broken(watched(FakeClock(), *other, scopes=(host,))) == ["tenant-nodes"]


def test_dedicated_nodes_are_not_evaluated_inside_a_tenant() -> None:
    """Its virtual nodes carry the host's labels."""
    scope = Scope("ml", HOST.cluster)
    seen = [*lists(*NODES, pod("mine", on="w2"), source="ml/"), 25.0]
    assert broken(watched(FakeClock(), *seen, scopes=(scope,))) == []


# --- quota


def test_tenant_within_its_quota() -> None:
    pods = [copy_of(pod("a", gpus=2, requests={"cpu": "500m", "memory": "1Gi"}), "ml")]
    hard = {"gpu": "2", "requests.cpu": "1", "requests.memory": "1Gi", "pods": "1", "count/secrets": "0"}
    assert breaches("tenant-quota", quota("ml", **hard), *pods) == []


@pytest.mark.parametrize(
    ("hard", "what"),
    [
        ({"gpu": "1"}, "the pods of tenant ml hold 2 GPUs, and its quota is 1"),
        ({"requests.cpu": "250m"}, "the pods of tenant ml hold 0.5 cpu, and its quota is 0.25"),
        ({"pods": "1"}, "the pods of tenant ml hold 3 pods, and its quota is 1"),
    ],
)
def test_tenant_over_its_quota(hard: dict[str, str], what: str) -> None:
    held = [
        copy_of(reservation(), "ml"),
        copy_of(share("a", 0.5), "ml"),
        copy_of(pod("b", gpus=1, requests={"cpu": "500m"}), "ml"),
    ]
    gone = [deleted(copy_of(pod("c", gpus=1), "ml")), copy_of(pod("d", gpus=1, phase="Failed"), "ml")]
    (breach,) = breaches("tenant-quota", quota("ml", **hard), *held, *gone, pod("other", gpus=1))
    assert breach.what == what
    assert breach.evidence[0].startswith("ResourceQuota vc-ml/vc-ml: ")


def test_other_resource_quotas_are_not_evaluated() -> None:
    foreign = quota("ml", gpu="0")
    foreign["metadata"]["labels"] = {}
    assert breaches("tenant-quota", foreign, copy_of(pod("a", gpus=1), "ml")) == []


# --- KAI's objects


def test_host_pod_group_for_an_own_kai_tenant() -> None:
    named = copy_of(pod("a", annotations={"pod-group-name": "pg-a"}), "ml")
    assert breaches("tenant-no-host-groups", named, pod_group("pg-host"), own_kai=("ml",)) == []
    group = pod_group("pg-a", namespace="vc-ml")
    (breach,) = breaches("tenant-no-host-groups", named, group, own_kai=("ml",))
    assert breach.what == "the host's KAI created PodGroup pg-a in vc-ml, but tenant ml has its own KAI"
    assert breach.evidence[0] == "PodGroup vc-ml/pg-a: queue leaf"
    assert breaches("tenant-no-host-groups", named, group) == []  # the host's KAI schedules a host-kai tenant


def test_host_kai_that_handles_all_namespaces_beside_an_own_kai_tenant() -> None:
    def grouper(*args: str, namespace: str = "kai-scheduler") -> Json:
        obj = pod("pod-grouper-7f", namespace=namespace, labels={"app": "pod-grouper"})
        obj["spec"]["containers"][0]["args"] = list(args)
        return obj

    limited = grouper("--namespace-label-selector=kailab.dev/kai=host")
    for fine in (limited, grouper(namespace="team-a")):
        assert breaches("tenant-host-kai-apart", fine, own_kai=("ml",)) == []
    assert breaches("tenant-host-kai-apart", grouper()) == [], "no tenant has its own KAI"
    (breach,) = breaches("tenant-host-kai-apart", grouper(), own_kai=("ml",))
    assert breach.what.startswith("KAI in namespace kai-scheduler handles the pods of all namespaces")
    assert breach.what.endswith(": ml")


def test_host_pod_must_name_a_pod_group_of_its_tenant() -> None:
    named = copy_of(pod("a", annotations={"pod-group-name": "pg-a"}), "ml")
    inside = world(pod_group("pg-a"))
    assert breaches("tenant-own-groups", named, tenants={"ml": inside}, own_kai=("ml",)) == []
    (breach,) = breaches("tenant-own-groups", named, tenants={"ml": world()}, own_kai=("ml",))
    assert breach.what.endswith("names the PodGroup pg-a, which its tenant does not have; no PodGroup has that name")
    hosts = pod_group("pg-a", namespace="vc-ml")
    (breach,) = breaches("tenant-own-groups", named, hosts, tenants={"ml": world()}, own_kai=("ml",))
    assert breach.what.endswith("; the host's KAI has one of that name")


def test_unread_pod_groups_are_not_evaluated() -> None:
    named = copy_of(pod("a", annotations={"pod-group-name": "pg-a"}), "ml")
    unread = world(kinds=("Pod", "Node"))
    assert breaches("tenant-own-groups", named, tenants={"ml": unread}, own_kai=("ml",)) == []
    assert breaches("tenant-own-groups", named, tenants={"ml": world()}) == []
    assert breaches("tenant-own-groups", deleted(named), tenants={"ml": world()}, own_kai=("ml",)) == []


# --- own-kai tenants on the host


def test_unreported_gpu_of_an_own_kai_tenant_is_no_breach() -> None:
    unreported = copy_of(reservation("g", ""), "ml")
    user = copy_of(share("a", 0.5, "g"), "ml")
    assert breaches("gpu-told", unreported, user, own_kai=("ml",)) == []
    assert breaches("gpu-told", reservation("g", ""), share("a", 0.5, "g"))


def test_pending_pod_of_an_own_kai_tenant_needs_no_host_pod() -> None:
    refused = pod("a", phase="Pending")
    assert breaches("tenant-own-pods", tenants={"ml": world(refused)}, own_kai=("ml",)) == []
    assert breaches("tenant-own-pods", tenants={"ml": world(pod("a"))}, own_kai=("ml",))


@pytest.mark.parametrize("version", ["0.7.11", "0.9.3"])
def test_old_kai_lines_are_evaluated_inside_their_tenants(clock: FakeClock, version: str) -> None:
    # these lines name reservation pods by node, with the labels and annotations of newer lines
    held = reservation("g1", "GPU-1", name="gpu-reservation-w1-x7k2p")
    own = Scope("ml", HOST.cluster, kai_version=version)
    fine = [held, share("a", 0.5), share("b", 0.5)]
    assert broken(watched(clock, *lists(), *lists(*fine, source="ml/"), scopes=(HOST, own))) == []
    alone = [share("a", 0.5), share("b", 0.5)]
    (violation,) = watched(FakeClock(), *lists(), *lists(*alone, source="ml/"), scopes=(HOST, own)).violations
    assert (violation.side, violation.rule) == ("tenant ml", "reserved")
    assert violation.evidence[-1].startswith(f"known defect of KAI {version}: ")
