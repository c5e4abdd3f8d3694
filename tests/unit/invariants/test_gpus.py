"""Rules on GPUs: fractions, memory, whole GPUs, and the resources that pods received."""

from __future__ import annotations

import pytest

from tests.support.invariants_world import breaches, copy_of, node, pod, reservation, share

HALF = [share("a", 0.5), share("b", 0.5)]


@pytest.mark.parametrize(
    "shares",
    [
        [0.5, 0.5],
        [0.1] * 10,  # 0.9999999999999999 in floats
        [0.3333, 0.3333, 0.3334],
        [0.33334, 0.33334, 0.33334],  # KAI rounds each down to whole MiB, so it admits them
    ],
)
def test_fully_shared_gpu_is_no_breach(shares: list[float]) -> None:
    pods = [share(f"p{number}", part) for number, part in enumerate(shares)]
    assert breaches("gpu-fractions", reservation(), *pods) == []


@pytest.mark.parametrize("shares", [[0.5, 0.5, 0.5], [0.9, 0.2], [0.5, 0.501]])
def test_oversubscribed_gpu_is_named_with_its_pods(shares: list[float]) -> None:
    pods = [share(f"p{number}", part) for number, part in enumerate(shares)]
    (breach,) = breaches("gpu-fractions", reservation(), *pods)
    assert breach.subject == "w1 GPU-1"
    assert f"add up to {sum(shares):.4g} GPUs" in breach.what
    assert [line.split(":")[0] for line in breach.evidence] == [f"pod t/p{n}" for n in range(len(shares))]


def test_ended_and_unbound_pods_hold_no_share() -> None:
    others = [share("done", 0.5, phase="Succeeded"), share("failed", 0.5, phase="Failed"), share("soon", 0.5, on="")]
    assert breaches("gpu-fractions", reservation(), *HALF, *others) == []


def test_pod_being_deleted_holds_its_share() -> None:
    assert breaches("gpu-fractions", reservation(), *HALF, share("going", 0.5, deleting=True))


def test_two_groups_on_one_gpu_add_up() -> None:
    pods = [share("a", 0.6), share("b", 0.6, "g2")]
    two = [reservation("g1", "GPU-1"), reservation("g2", "GPU-1")]
    (breach,) = breaches("gpu-fractions", *two, *pods)
    assert "add up to 1.2 GPUs" in breach.what
    other = [reservation("g1", "GPU-1"), reservation("g2", "GPU-2")]
    assert breaches("gpu-fractions", *other, *pods) == []


def test_same_uuid_on_two_nodes_is_two_devices() -> None:
    # All nodes of a kind cluster see the machine's real GPUs.
    pods = [share("a", 0.6), share("b", 0.6, "g2", on="w2")]
    held = [reservation("g1", "GPU-1"), reservation("g2", "GPU-1", on="w2")]
    assert breaches("gpu-fractions", node(), node("w2"), *held, *pods) == []
    assert breaches("gpu-held-once", node(), node("w2"), *held, *pods) == []


def test_fractions_and_memory_add_up_on_one_gpu() -> None:
    half = pod("m", mib=8192, groups=["g1"])
    assert breaches("gpu-fractions", reservation(), share("a", 0.5), half) == []
    more = pod("m", mib=8500, groups=["g1"])
    (breach,) = breaches("gpu-fractions", reservation(), share("a", 0.5), more)
    assert "0.5 + 0.5188" in breach.what
    (breach,) = breaches("gpu-memory", reservation(), share("a", 0.5), more)
    assert "8192 + 8500" in breach.what


def test_each_violation_is_reported_by_one_rule() -> None:
    pods = [share("a", 0.9), share("b", 0.9)]
    assert breaches("gpu-fractions", reservation(), *pods)
    assert breaches("gpu-memory", reservation(), *pods) == []
    pods = [pod(f"m{n}", mib=10000, groups=["g1"]) for n in range(2)]
    assert breaches("gpu-fractions", reservation(), *pods) == []
    assert breaches("gpu-memory", reservation(), *pods)


def test_fractions_of_several_devices_count_on_each() -> None:
    wide = pod("wide", fraction=0.6, devices=2, groups=["g1", "g2"])
    held = [reservation("g1", "GPU-1"), reservation("g2", "GPU-2")]
    assert breaches("gpu-fractions", *held, wide) == []
    (breach,) = breaches("gpu-fractions", *held, wide, share("b", 0.5, "g2"))
    assert breach.subject == "w1 GPU-2"


def test_without_memory_label_fractions_are_rounded_to_hundredths() -> None:
    # KAI then counts a GPU as 100: 0.335 of it is 33.
    pods = [share(f"p{n}", 0.335) for n in range(3)]
    assert breaches("gpu-fractions", node(memory=None), reservation(), *pods) == []
    assert breaches("gpu-fractions", node(), reservation(), *pods)


def test_memory_requests_above_the_memory_of_a_gpu() -> None:
    pods = [pod(f"m{n}", mib=6000, groups=["g1"]) for n in range(3)]
    assert breaches("gpu-memory", reservation(), *pods[:2]) == []
    assert breaches("gpu-memory", node(memory=None), reservation(), *pods) == []
    (breach,) = breaches("gpu-memory", reservation(), *pods)
    assert breach.what == "GPU GPU-1 of w1 has 16384 MiB, but its pods request 18000 MiB (6000 + 6000 + 6000)"


def test_whole_gpus_and_reservation_pods_above_the_gpus_of_the_node() -> None:
    full = [reservation(), *HALF, pod("whole", gpus=1)]
    assert breaches("whole-gpus", *full) == []
    (breach,) = breaches("whole-gpus", *full, pod("late", gpus=1, scheduler="default-scheduler"))
    assert breach.what == "node w1 has 2 GPUs, but its pods hold 3"
    assert any("holds GPU GPU-1" in line and line.endswith("used by t/a, t/b") for line in breach.evidence)


def test_unused_reservation_pods_are_named_in_evidence() -> None:
    (breach,) = breaches("whole-gpus", *(reservation(f"g{number}", f"GPU-{number}") for number in range(3)))
    assert all(line.endswith("used by no pod") for line in breach.evidence)


def test_ended_and_unbound_pods_hold_no_whole_gpus() -> None:
    pods = [pod("a", gpus=2), pod("b", gpus=2, phase="Failed"), pod("c", gpus=2, on="")]
    assert breaches("whole-gpus", *pods) == []


@pytest.mark.parametrize(
    ("existing", "wrong"),
    [
        (node(gpus=0, count=2), False),  # the device plugin restarts
        (node(gpus=0), False),  # unknown number
        (node(gpus=1, count=2), False),
        (node(gpus=1), True),
    ],
)
def test_gpus_of_a_node_are_the_larger_of_count_label_and_allocatable(existing: dict[str, object], wrong: bool) -> None:
    assert bool(breaches("whole-gpus", existing, pod("a", gpus=2))) is wrong


def test_time_slicing_multiplies_gpus() -> None:
    sliced = node(gpus=0, count=2)
    sliced["metadata"]["labels"]["nvidia.com/gpu.replicas"] = "4"
    assert breaches("whole-gpus", sliced, pod("a", gpus=8)) == []
    assert breaches("whole-gpus", sliced, pod("a", gpus=9))


def test_gpu_held_by_two_reservation_pods() -> None:
    two = [reservation("g1", "GPU-1"), reservation("g2", "GPU-1")]
    (breach,) = breaches("gpu-held-once", *two)
    assert breach.subject == "w1 GPU-1"
    ended = [reservation("g1", "GPU-1"), reservation("g2", "GPU-1", phase="Failed")]
    assert breaches("gpu-held-once", *ended) == []
    unreported = [reservation("g1", ""), reservation("g2", "")]
    assert breaches("gpu-held-once", *unreported) == []


@pytest.mark.parametrize(
    ("state", "wrong"),
    [
        (pod("p"), ""),
        (pod("p", gpus=1), ""),
        (share("p", 0.5), ""),
        (pod("p", fraction=0.5, devices=2, groups=["g1", "g2"]), ""),
        (share("p", 0.5, on="", received=""), ""),
        (pod("p", fraction=0.5, scheduler="default-scheduler"), ""),
        (pod("p", gpus=1, groups=["g1"]), "Regular in 1 GPU group"),
        (pod("p", fraction=0.5), "Fraction in 0 GPU groups"),
        (share("p", 0.5, received="Regular"), "Regular in 1 GPU group"),
        (pod("p", fraction=0.5, devices=2, groups=["g1"]), "Fraction in 1 GPU group"),
    ],
)
def test_bound_pod_received_what_it_requested(state: dict[str, object], wrong: str) -> None:
    found = breaches("received", state)
    assert [wrong in breach.what for breach in found] == ([True] if wrong else [])


def test_gpus_of_own_kai_tenants_count_on_the_host() -> None:
    # Neither of two KAIs in tenants sees the GPUs that the other allocated.
    pods = [copy_of(pod("a", gpus=2), "ml"), copy_of(pod("b", gpus=1), "ops")]
    (breach,) = breaches("whole-gpus", *pods, own_kai=("ml", "ops"))
    assert "t/a of tenant ml" in breach.evidence[0]
