"""Rules on GPU groups and their reservation pods."""

from __future__ import annotations

import pytest

from lab.invariants import ALL
from tests.support.invariants_world import bind_request, breaches, copy_of, given, pod, reservation, share

RULES = [
    invariant.id
    for invariant in ALL
    if invariant.id in ("one-reservation", "reserved", "group-on-one-node", "gpu-told", "gpu-given", "reservation-used")
]
CONFIGMAP = {"runai/shared-gpu-configmap": "a-shared-gpu"}


@pytest.mark.parametrize("rule", RULES)
def test_healthy_shared_gpu_is_no_breach(rule: str) -> None:
    users = [share("a", 0.5, annotations=CONFIGMAP), share("b", 0.5)]
    assert breaches(rule, reservation(), *users, given("a", "GPU-1")) == []


def test_two_reservation_pods_for_one_group_are_a_breach() -> None:
    # Before KAI 0.9.20 and 0.16 their names are random, so that two can be created at once.
    two = [reservation(name="gpu-reservation-w1-aaaaa"), reservation(uuid="GPU-2", name="gpu-reservation-w1-bbbbb")]
    (breach,) = breaches("one-reservation", *two, share("a", 0.5))
    assert breach.what == "GPU group g1 has 2 reservation pods"
    assert breaches("one-reservation", two[0], reservation(name="old", phase="Failed")) == []
    assert breaches("one-reservation", two[0], reservation(name="old", deleting=True)) == []


def test_pods_without_a_reservation_pod_are_a_breach() -> None:
    (breach,) = breaches("reserved", share("a", 0.5), share("b", 0.25))
    assert "2 pods but no reservation pod" in breach.what
    assert breaches("reserved", reservation(phase="Failed"), share("a", 0.5))


@pytest.mark.parametrize("state", [{"phase": "Succeeded"}, {"deleting": True}, {"on": ""}])
def test_ended_and_unbound_pods_need_no_reservation_pod(state: dict[str, object]) -> None:
    assert breaches("reserved", share("a", 0.5, **state)) == []


def test_reservations_of_own_kai_tenants_are_not_evaluated_on_the_host() -> None:
    user = copy_of(share("a", 0.5), "ml")
    assert breaches("reserved", user)
    assert breaches("reserved", user, own_kai=("ml",)) == []
    kai = copy_of(pod("scheduler", namespace="kai-scheduler", scheduler="default-scheduler"), "ml")
    assert breaches("reserved", user, kai) == []


def test_reservation_pod_of_a_tenant_counts_on_the_host() -> None:
    held = copy_of(reservation(), "ml")
    user = copy_of(share("a", 0.5), "ml")
    (breach,) = breaches("gpu-fractions", held, user, copy_of(share("b", 0.6), "ml"), own_kai=("ml",))
    assert breach.subject == "w1 GPU-1"
    assert breaches("reservation-used", held, own_kai=("ml",)) == []


def test_group_on_two_nodes_is_a_breach() -> None:
    (breach,) = breaches("group-on-one-node", reservation(), share("a", 0.5, on="w2"))
    assert breach.what == "GPU group g1 is on 2 nodes: w1, w2"


def test_used_group_with_unreported_gpu_is_a_breach() -> None:
    (breach,) = breaches("gpu-told", reservation(uuid=""), share("a", 0.5))
    assert breach.subject == "g1"
    assert breaches("gpu-told", reservation(uuid=""), share("a", 0.5, on="")) == []


def test_unused_reservation_pod_is_a_breach() -> None:
    (breach,) = breaches("reservation-used", reservation())
    assert breach.what == "GPU group g1 has a reservation pod but no user"
    assert breaches("reservation-used", reservation(), share("a", 0.5, phase="Succeeded"))
    assert breaches("reservation-used", reservation(deleting=True)) == []


@pytest.mark.parametrize(
    "user", [share("a", 0.5, on="", phase="Pending"), bind_request("a", groups=["g1"]), bind_request("a", "", ["g1"])]
)
def test_reservation_pod_for_a_pod_being_bound_is_no_breach(user: dict[str, object]) -> None:
    assert breaches("reservation-used", reservation(), user) == []


def test_reservation_pod_for_a_finished_bind_request_is_a_breach() -> None:
    assert breaches("reservation-used", reservation(), bind_request("a", "Succeeded", ["g1"]))


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("GPU-1", False),
        ("k8s.device-plugin.nvidia.com/gpu=GPU-1", False),
        ("GPU-2", True),
        ("GPU-1,GPU-2", True),
        ("", True),
    ],
)
def test_visible_devices_must_be_the_gpu_of_the_group(value: str, wrong: bool) -> None:
    user = share("a", 0.5, annotations=CONFIGMAP)
    found = breaches("gpu-given", reservation(), user, given("a", value), given("b", "GPU-9"))
    assert bool(found) is wrong
    if found:
        assert f"NVIDIA_VISIBLE_DEVICES={value}" in found[0].evidence[1]


def test_visible_devices_of_a_pod_on_two_devices_must_be_both() -> None:
    user = pod("a", fraction=0.5, devices=2, groups=["g1", "g2"], annotations=CONFIGMAP)
    held = [reservation("g1", "GPU-1"), reservation("g2", "GPU-2")]
    assert breaches("gpu-given", *held, user, given("a", "GPU-2,GPU-1")) == []
    assert breaches("gpu-given", *held, user, given("a", "GPU-1"))
