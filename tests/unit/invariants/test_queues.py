"""Rules on queues, PodGroups, BindRequests and schedulers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.invariants_world import bind_request, breaches, pod, pod_group, queue, share

IN_GROUP = {"pod-group-name": "pg"}
TREE = [queue("root", gpu=2), queue("leaf", "root", gpu=1), queue("other", "root")]


def member(name: str, group: str = "pg", **more: Any) -> dict[str, Any]:
    return pod(name, **{"gpus": 1, **more}, annotations={"pod-group-name": group})


def test_queue_within_its_limit() -> None:
    assert breaches("queue-limit", *TREE, pod_group("pg"), member("a"), member("b", on="")) == []


def test_queue_over_its_limit_is_named_with_its_pods() -> None:
    (breach,) = breaches("queue-limit", *TREE, pod_group("pg"), member("a"), member("b"))
    assert breach.what == "the pods of queue leaf hold 2 GPUs, and its limit is 1"
    assert breach.evidence[0].startswith("queue leaf, parent root: limits gpu 1")
    assert len(breach.evidence) == 3


def test_limit_of_a_parent_covers_all_its_descendants() -> None:
    pods = [member("a"), *(member(f"o{n}", "pg-other") for n in range(2))]
    (breach,) = breaches("queue-limit", *TREE, pod_group("pg"), pod_group("pg-other", "other"), *pods)
    assert breach.subject == "root GPUs"


def test_fractions_and_memory_count_as_fractions_of_gpus() -> None:
    halves = [share(f"h{n}", 0.5, annotations=IN_GROUP) for n in range(2)]
    assert breaches("queue-limit", *TREE, pod_group("pg"), *halves) == []
    more = pod("m", mib=1639, groups=["g1"], annotations=IN_GROUP)
    (breach,) = breaches("queue-limit", *TREE, pod_group("pg"), *halves, more)
    assert "1.10004" in breach.what
    wide = pod("w", fraction=0.6, devices=2, groups=["g1", "g2"], annotations=IN_GROUP)
    (breach,) = breaches("queue-limit", *TREE, pod_group("pg"), wide)
    assert "1.2" in breach.what


def test_pods_being_deleted_do_not_count() -> None:
    assert breaches("queue-limit", *TREE, pod_group("pg"), member("a"), member("b", deleting=True)) == []


def test_cpu_in_millicores_and_memory_in_megabytes() -> None:
    queues = [queue("leaf", cpu=500, memory=100)]
    small = member("a", gpus=0, requests={"cpu": "500m", "memory": "100M"})
    assert breaches("queue-limit", *queues, pod_group("pg"), small) == []
    big = member("a", gpus=0, requests={"cpu": "501m", "memory": "100Mi"})
    assert [b.subject for b in breaches("queue-limit", *queues, pod_group("pg"), big)] == ["leaf cpu", "leaf memory"]


def test_omitted_limit_is_zero() -> None:
    # KAI reads an omitted limit as 0 (docs/queues/README.md, 0.17.0).
    bare = {"kind": "Queue", "metadata": {"name": "leaf"}, "spec": {"resources": {"cpu": {"limit": -1}}}}
    assert [b.subject for b in breaches("queue-limit", bare, pod_group("pg"), member("a"))] == ["leaf GPUs"]


def test_circular_queues_are_evaluated() -> None:
    circular = [queue("leaf", "root", gpu=0), queue("root", "leaf")]
    assert breaches("queue-limit", *circular, pod_group("pg"), member("a"))


def test_bound_pods_must_be_in_leaf_queues() -> None:
    assert breaches("leaf-queues", *TREE, pod_group("pg"), member("a")) == []
    (breach,) = breaches("leaf-queues", *TREE, pod_group("pg", "root"), member("a"))
    assert breach.what == "1 pod in queue root, which is the parent of leaf, other"
    (breach,) = breaches("leaf-queues", *TREE, pod_group("pg", "gone"), member("a"))
    assert "'gone', which does not exist" in breach.what


def test_pending_pods_may_name_any_queue() -> None:
    # KAI refuses to schedule them; tests/e2e/test_queues.py tests that.
    assert breaches("leaf-queues", *TREE, pod_group("pg", "root"), member("a", on="")) == []


@pytest.mark.parametrize(
    ("bound", "least", "wrong"), [(0, 3, False), (3, 3, False), (4, 3, False), (2, 3, True), (1, 1, False)]
)
def test_gang_is_bound_completely_or_not_at_all(bound: int, least: int, wrong: bool) -> None:
    pods = [member(f"p{n}", on="w1" if n < bound else "", gpus=0) for n in range(4)]
    found = breaches("gang-whole", pod_group("pg", least=least), *pods)
    assert bool(found) is wrong
    if found:
        assert found[0].what == "PodGroup t/pg: 2 of at least 3 pods are bound"
        assert len(found[0].evidence) == 4


def test_partly_ended_gang_is_no_breach() -> None:
    pods = [member("a"), member("b", phase="Succeeded")]
    assert breaches("gang-whole", pod_group("pg", least=2), *pods) == []


def test_each_subgroup_is_bound_completely() -> None:
    group = pod_group("pg", subGroups=[{"name": "head", "minMember": 1}, {"name": "work", "minMember": 2}])
    head = pod("h", annotations=IN_GROUP, labels={"kai.scheduler/subgroup-name": "head"})
    workers = [pod(f"w{n}", annotations=IN_GROUP, labels={"kai.scheduler/subgroup-name": "work"}) for n in range(2)]
    assert breaches("gang-whole", group, head, *workers) == []
    (breach,) = breaches("gang-whole", group, head, workers[0])
    assert "1 of at least 2 pods of subgroup work" in breach.what
    group["spec"]["minSubGroup"] = 1
    assert breaches("gang-whole", group, head, workers[0]) == []


def test_missing_pod_group_is_a_breach() -> None:
    (breach,) = breaches("pod-group-exists", member("a"))
    assert breach.what == "pod t/a names the PodGroup pg, which does not exist"
    assert breaches("pod-group-exists", member("a"), pod_group("pg")) == []
    assert breaches("pod-group-exists", member("a"), pod_group("pg", namespace="elsewhere"))
    assert breaches("pod-group-exists", member("a", phase="Succeeded"), member("b", deleting=True)) == []


@pytest.mark.parametrize(("phase", "wrong"), [("", True), ("Pending", True), ("Succeeded", False), ("Failed", False)])
def test_unfinished_bind_request_is_a_breach(phase: str, wrong: bool) -> None:
    found = breaches("bind-ends", bind_request("a", phase))
    assert bool(found) is wrong
    if found:
        assert "2 failed attempts" in found[0].evidence[0]


def test_pod_in_another_group_than_its_bind_request_is_a_breach() -> None:
    moved = share("a", 0.5, group="g1")
    (breach,) = breaches("bound-as-requested", moved, bind_request("a", "Succeeded", ["g2"]))
    assert breach.what == "pod t/a is not in the GPU groups of its BindRequest"
    assert breach.evidence[1].startswith("BindRequest t/a: to ")
    assert breaches("bound-as-requested", moved, bind_request("a", "Succeeded", ["g1"])) == []
    assert breaches("bound-as-requested", moved, bind_request("a", "Failed", ["g2"])) == []
    assert breaches("bound-as-requested", share("a", 0.5, group="g1", on=""), bind_request("a", "", ["g2"])) == []


def test_kai_marks_on_pods_of_other_schedulers_are_a_breach() -> None:
    plain = pod("a", scheduler="default-scheduler")
    assert breaches("others-left-alone", plain, share("k", 0.5)) == []
    touched = pod("a", scheduler="default-scheduler", received="Regular")
    (breach,) = breaches("others-left-alone", touched)
    assert "belongs to scheduler default-scheduler" in breach.what
    assert breaches("others-left-alone", pod("a", scheduler="default-scheduler", groups=["g1"]))
