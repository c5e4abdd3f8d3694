"""Rules on what tenants share with each other and with the host."""

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


def apart(*objs: Json, own: Iterable[str] = ("ml", "ops")) -> list[Finding]:
    return breaches("tenant-gpus-apart", *objs, own_kai=own)


def whole(name: str, *uuids: str, **more: Any) -> Json:
    """A pod with whole GPUs whose kubelet tells which."""
    made = pod(name, gpus=len(uuids), **more)
    told = [{"resourceID": f"{uuid}::0", "health": "Healthy"} for uuid in uuids]
    resource = {"name": "nvidia.com/gpu", "resources": told}
    made["status"]["containerStatuses"] = [{"name": "main", "allocatedResourcesStatus": [resource]}]
    return made


def leaving(obj: Json) -> Json:
    """The same pod while it is being deleted."""
    return {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


# --- GPUs


def test_each_has_gpus_of_its_own() -> None:
    ours = [reservation("g-host", "GPU-2"), share("b", 0.5, "g-host")]
    other = [copy_of(reservation("g-ops", "GPU-3"), "ops"), copy_of(share("c", 0.5, "g-ops"), "ops")]
    assert apart(ML, ML_USER, *ours, *other) == []


def test_a_gpu_of_two_tenants() -> None:
    (breach,) = apart(ML, ML_USER, copy_of(reservation("g-ops", "GPU-1"), "ops"))
    assert breach.subject == "w1 GPU-1"
    assert breach.what.startswith("GPU GPU-1 of w1 is used by tenant ml and tenant ops, whose schedulers")
    assert len(breach.evidence) == 3
    assert breach.evidence[0].startswith(
        "pod vc-ml/a-x-t-x-ml (t/a of tenant ml): Running, on w1, requests 0.5 of 1 GPU"
    )


def test_a_gpu_of_a_tenant_and_the_host() -> None:
    (breach,) = apart(ML, whole("big", "GPU-0", "GPU-1"))
    assert "is used by the host and tenant ml, whose" in breach.what
    (breach,) = apart(ML, copy_of(share("c", 0.5, "g-c"), "dev"), reservation("g-c", "GPU-1"))
    assert "is used by the host and tenant ml" in breach.what  # dev's pods are the host's KAI's


def test_a_pod_of_the_host_in_a_tenants_group() -> None:
    (breach,) = apart(ML, share("stray", 0.25, "g-ml"))
    stray, reserved = sorted(breach.evidence)
    assert stray.startswith("pod t/stray: Running")
    assert "(kai-resource-reservation/gpu-reservation-g-ml of tenant ml)" in reserved


def test_tenants_without_a_kai_share_by_the_hosts_kai() -> None:
    users = [copy_of(share(name, 0.5), name) for name in ("dev", "web")]
    assert apart(reservation(), *users) == []


def test_what_does_not_run_uses_nothing() -> None:
    refused = copy_of(reservation("g-ops", "GPU-1", phase="Failed"), "ops")
    assert apart(ML, ML_USER, refused, whole("late", "GPU-1", phase="Failed")) == []


def test_the_same_gpu_on_two_nodes_is_two() -> None:
    assert apart(ML, copy_of(reservation("g-ops", "GPU-1", on="w2"), "ops"), node(), node("w2")) == []


def test_a_gpu_used_twice_for_a_moment_is_seen(clock: FakeClock) -> None:
    other = copy_of(reservation("g-ops", "GPU-1"), "ops")
    host = Scope("", HOST.cluster, own_kai=frozenset({"ml", "ops"}))
    steps = [*lists(ML, ML_USER), 1.0, news("ADDED", other), news("DELETED", other), 1.0]
    assert "tenant-gpus-apart" in broken(watched(clock, *steps, scopes=(host,)))


# --- nodes

NODES = (node("w1"), node("w2", tenant="ml"))


def on_nodes(*objs: Json) -> list[Finding]:
    return breaches("tenant-nodes", *NODES, *objs)


def test_everybody_on_nodes_of_their_own() -> None:
    assert on_nodes(copy_of(pod("a", on="w2"), "ml"), pod("b", on="w1"), copy_of(pod("c", on="w1"), "dev")) == []


def test_a_tenants_pod_elsewhere() -> None:
    (breach,) = on_nodes(copy_of(pod("a", on="w1"), "ml"))
    assert breach.what == "pod vc-ml/a-x-t-x-ml (t/a of tenant ml) runs on w1, not on its tenant's dedicated nodes (w2)"
    both = breaches("tenant-nodes", *NODES, node("w3", tenant="ops"), copy_of(pod("a", on="w3"), "ml"))
    assert "runs on w3, which belongs to tenant ops, not on" in both[0].what


@pytest.mark.parametrize("other", [pod("b", on="w2"), copy_of(pod("b", on="w2"), "dev")])
def test_somebody_else_on_a_tenants_node(other: Json) -> None:
    (breach,) = on_nodes(other)
    assert breach.what.endswith(" runs on w2, which is dedicated to tenant ml")
    assert breach.evidence[0].endswith("Running, on w2")


def test_what_belongs_to_every_node_does_not_count() -> None:
    daemon = pod("plugin", namespace="gpu", on="w2")
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "plugin", "controller": True}]
    static = pod("proxy", namespace="other", on="w2")
    static["metadata"]["ownerReferences"] = [{"kind": "Node", "name": "w2", "controller": True}]
    ended = pod("ended", on="w2", phase="Succeeded")
    assert on_nodes(daemon, static, ended, pod("dns", namespace="kube-system", on="w2"), reservation(on="w2")) == []


def test_a_node_that_changes_hands_may_take_a_moment(clock: FakeClock) -> None:
    left = copy_of(pod("a", on="w2", scheduler="default-scheduler"), "ml")
    host = Scope("", HOST.cluster)
    begin = [*lists(*NODES, left), 1.0, news("MODIFIED", node("w2")), 5.0]
    assert broken(watched(clock, *begin, news("DELETED", left), 30.0, scopes=(host,))) == []
    other = [*lists(*NODES, pod("b", on="w2")), 25.0]
    assert broken(watched(FakeClock(), *other, scopes=(host,))) == ["tenant-nodes"]


def test_inside_a_tenant_all_pods_are_its_own() -> None:
    """Its virtual nodes carry the host's labels."""
    scope = Scope("ml", HOST.cluster)
    seen = [*lists(*NODES, pod("mine", on="w2"), source="ml/"), 25.0]
    assert broken(watched(FakeClock(), *seen, scopes=(scope,))) == []


# --- quota


def test_a_tenant_within_its_quota() -> None:
    taken = [copy_of(pod("a", gpus=2, requests={"cpu": "500m", "memory": "1Gi"}), "ml")]
    hard = {"gpu": "2", "requests.cpu": "1", "requests.memory": "1Gi", "pods": "1", "count/secrets": "0"}
    assert breaches("tenant-quota", quota("ml", **hard), *taken) == []


@pytest.mark.parametrize(
    ("hard", "what"),
    [
        ({"gpu": "1"}, "the pods of tenant ml hold 2 GPUs, and its quota is 1"),
        ({"requests.cpu": "250m"}, "the pods of tenant ml hold 0.5 cpu, and its quota is 0.25"),
        ({"pods": "1"}, "the pods of tenant ml hold 3 pods, and its quota is 1"),
    ],
)
def test_a_tenant_over_its_quota(hard: dict[str, str], what: str) -> None:
    held = [
        copy_of(reservation(), "ml"),
        copy_of(share("a", 0.5), "ml"),
        copy_of(pod("b", gpus=1, requests={"cpu": "500m"}), "ml"),
    ]
    gone = [leaving(copy_of(pod("c", gpus=1), "ml")), copy_of(pod("d", gpus=1, phase="Failed"), "ml")]
    (breach,) = breaches("tenant-quota", quota("ml", **hard), *held, *gone, pod("other", gpus=1))
    assert breach.what == what
    assert breach.evidence[0].startswith("ResourceQuota vc-ml/vc-ml: ")


def test_quotas_of_others_are_not_judged() -> None:
    mine = quota("ml", gpu="0")
    mine["metadata"]["labels"] = {}
    assert breaches("tenant-quota", mine, copy_of(pod("a", gpus=1), "ml")) == []


# --- KAI's objects


def test_the_hosts_kai_groups_only_its_own() -> None:
    named = copy_of(pod("a", annotations={"pod-group-name": "pg-a"}), "ml")
    assert breaches("tenant-no-host-groups", named, pod_group("pg-host"), own_kai=("ml",)) == []
    made = pod_group("pg-a", namespace="vc-ml")
    (breach,) = breaches("tenant-no-host-groups", named, made, own_kai=("ml",))
    assert breach.what == "the host's KAI created PodGroup pg-a in vc-ml, but tenant ml has its own KAI"
    assert breach.evidence[0] == "PodGroup vc-ml/pg-a: queue leaf"
    assert breaches("tenant-no-host-groups", named, made) == []  # a host-kai tenant's pods are the host's KAI's


def test_a_copy_names_a_group_of_its_tenant() -> None:
    named = copy_of(pod("a", annotations={"pod-group-name": "pg-a"}), "ml")
    inside = world(pod_group("pg-a"))
    assert breaches("tenant-own-groups", named, tenants={"ml": inside}, own_kai=("ml",)) == []
    (breach,) = breaches("tenant-own-groups", named, tenants={"ml": world()}, own_kai=("ml",))
    assert breach.what.endswith("names the PodGroup pg-a, which its tenant does not have; no PodGroup has that name")
    hosts = pod_group("pg-a", namespace="vc-ml")
    (breach,) = breaches("tenant-own-groups", named, hosts, tenants={"ml": world()}, own_kai=("ml",))
    assert breach.what.endswith("; the host's KAI has one of that name")


def test_groups_that_cannot_be_seen_are_not_judged() -> None:
    named = copy_of(pod("a", annotations={"pod-group-name": "pg-a"}), "ml")
    unread = world(kinds=("Pod", "Node"))
    assert breaches("tenant-own-groups", named, tenants={"ml": unread}, own_kai=("ml",)) == []
    assert breaches("tenant-own-groups", named, tenants={"ml": world()}) == []
    assert breaches("tenant-own-groups", leaving(named), tenants={"ml": world()}, own_kai=("ml",)) == []


# --- what the host sees of a tenant's own KAI


def test_the_uuid_comes_over_after_the_pod() -> None:
    silent = copy_of(reservation("g", ""), "ml")
    user = copy_of(share("a", 0.5, "g"), "ml")
    assert breaches("gpu-told", silent, user, own_kai=("ml",)) == []
    assert breaches("gpu-told", reservation("g", ""), share("a", 0.5, "g"))


def test_a_bound_pod_that_the_host_refuses_has_no_copy() -> None:
    refused = pod("a", phase="Pending")
    assert breaches("tenant-own-pods", tenants={"ml": world(refused)}, own_kai=("ml",)) == []
    assert breaches("tenant-own-pods", tenants={"ml": world(pod("a"))}, own_kai=("ml",))


@pytest.mark.parametrize("version", ["0.7.11", "0.9.3"])
def test_old_lines_are_judged_inside_their_tenants(clock: FakeClock, version: str) -> None:
    # reservation pods of these lines are named by node; labels and annotations are those of newer ones
    held = reservation("g1", "GPU-1", name="gpu-reservation-w1-x7k2p")
    own = Scope("ml", HOST.cluster, kai_version=version)
    fine = [held, share("a", 0.5), share("b", 0.5)]
    assert broken(watched(clock, *lists(), *lists(*fine, source="ml/"), scopes=(HOST, own))) == []
    alone = [share("a", 0.5), share("b", 0.5)]
    (violation,) = watched(FakeClock(), *lists(), *lists(*alone, source="ml/"), scopes=(HOST, own)).violations
    assert (violation.side, violation.rule) == ("tenant ml", "reserved")
    assert violation.evidence[-1].startswith(f"known defect of KAI {version}: ")
