"""Queues that do not exist, take nothing, or have nothing left."""

from __future__ import annotations

import pytest

from tests.support.explain_world import SPACE, Scene, group, ids, meta, pod, queue, request

LIMIT = (
    "test quota has reached the allowable limit of GPUs. "
    "Limit is 2 GPUs, currently 2 GPUs allocated and workload requested 1 GPUs"
)
QUOTA = (
    "Non-preemptible workload is over quota. Workload requested 1 GPUs, but test quota is 0 GPUs, while 0 GPUs "
    "are already allocated for non-preemptible pods. Use a preemptible workload to go over quota."
)
UNABLE = "Unable to schedule pod"


def test_unknown_queue_with_a_near_name() -> None:
    scene = Scene()
    scene.pending(queue="tset", says="Queue 'tset' does not exist.")
    explanation = scene.explain()
    assert ids(explanation) == ["queue.unknown"]
    assert "do you mean test?" in explanation.findings[0].what
    assert explanation.findings[0].next == "label the workload with one of: test"


@pytest.mark.parametrize("version", ["0.7.11", "0.12.23"])
def test_unknown_queue_is_found_though_kai_is_silent(version: str) -> None:
    scene = Scene(version)
    scene.pending(queue="nowhere")
    assert ids(scene.explain()) == ["queue.unknown"]


def test_a_queue_made_meanwhile_is_not_unknown() -> None:
    scene = Scene().add(queue("late", "default"))
    scene.pending(queue="late", says="Queue 'late' does not exist.")
    assert ids(scene.explain()) == ["told.unschedulable"]


def test_no_queue_named_and_no_default_queue() -> None:
    scene = Scene()
    scene.pending(queue=None)
    explanation = scene.explain()
    assert ids(explanation) == ["queue.no-default"]
    assert "names no queue, and default-queue does not exist" in explanation.findings[0].what
    scene.pending(pod("named", queue="default-queue"))
    assert "names queue default-queue, which does not exist" in scene.explain("named").findings[0].what
    scene.add(queue("default-queue"))
    assert "queue.no-default" not in ids(scene.explain())


def test_the_queue_of_the_workload_counts_before_the_group_exists() -> None:
    scene = Scene()
    job = {"kind": "Job", "metadata": meta("j", SPACE, labels={"kai.scheduler/queue": "nowhere"}), "spec": {}}
    owner = {"kind": "Job", "name": "j", "controller": True}
    scene.add(job, pod(group=None, queue="test", ago=1, meta={"ownerReferences": [owner]}))
    assert ids(scene.explain()) == ["queue.unknown"]


def test_parent_queue() -> None:
    scene = Scene()
    scene.pending(queue="default", says=UNABLE)
    explanation = scene.explain()
    assert ids(explanation) == ["queue.not-leaf"]
    assert explanation.findings[0].next.endswith("one of its leaves: test")


def test_parent_that_does_not_exist() -> None:
    scene = Scene().add(queue("lonely", "gone"))
    scene.pending(queue="lonely", says="Queue 'lonely' does not exist.")
    explanation = scene.explain()
    assert ids(explanation) == ["queue.orphan"]
    assert "gone" in explanation.findings[0].what


@pytest.mark.parametrize(("version", "found"), [("0.12.23", ["queue.levels"]), ("0.16.8", ["told.unschedulable"])])
def test_a_leaf_without_parent_needs_a_newer_kai(version: str, found: list[str]) -> None:
    scene = Scene(version).add(queue("root"))
    scene.pending(queue="root", says=UNABLE)
    assert ids(scene.explain()) == found


@pytest.mark.parametrize(("share", "how"), [({"limit": None}, "is not set"), ({"limit": 0}, "is 0")])
def test_limit_of_zero(share: dict[str, float | None], how: str) -> None:
    scene = Scene().add(queue("test", "default", memory=share))
    scene.pending(says="test quota has reached the allowable limit of memory. Limit is 0 GB, currently 0 GB")
    explanation = scene.explain()
    assert ids(explanation) == ["queue.limit-zero"]
    assert f"the memory limit of queue test {how}" in explanation.findings[0].what


def test_limit_of_zero_for_what_the_pod_does_not_ask_for() -> None:
    scene = Scene().add(queue("test", "default", gpu={"limit": 0}))
    scene.pending(says=UNABLE)
    assert "queue.limit-zero" not in ids(scene.explain())


def test_over_limit_as_kai_says() -> None:
    scene = Scene().add(queue("test", "default", gpu={"limit": 2}, allocated={"nvidia.com/gpu": "2"}))
    scene.pending(gpus=1, says=LIMIT)
    explanation = scene.explain()
    assert ids(explanation) == ["queue.over-limit"]
    assert explanation.findings[0].evidence[1:3] == (
        "queue test: 2 GPUs used, limit 2",
        "queue default: nothing used, no bounds",
    )


def test_over_limit_of_a_parent() -> None:
    scene = Scene().add(queue("default", gpu={"limit": 2}, allocated={"nvidia.com/gpu": "2"}))
    scene.pending(gpus=1, says=LIMIT.replace("test quota", "default quota"))
    explanation = scene.explain()
    assert ids(explanation) == ["queue.over-limit"]
    assert "queue default, a parent of test," in explanation.findings[0].what


def test_over_limit_before_kai_says_so() -> None:
    scene = Scene().add(queue("test", "default", gpu={"limit": 1}, allocated={"nvidia.com/gpu": "1"}))
    scene.pending(gpus=1)
    explanation = scene.explain()
    assert ids(explanation)[0] == "queue.over-limit"
    assert explanation.findings[0].certainty == "likely"


def test_over_limit_names_who_holds_the_gpus() -> None:
    scene = Scene().add(queue("test", "default", gpu={"limit": 2}, allocated={"nvidia.com/gpu": "2"}))
    holder = group("pg-big")
    holder["status"]["resourcesStatus"] = {"allocated": {"nvidia.com/gpu": "2"}}
    scene.add(holder)
    scene.pending(gpus=1, says=LIMIT)
    assert "PodGroup team/pg-big: 2 GPUs" in scene.explain().findings[0].evidence


def test_over_quota_when_it_may_not_be_preempted() -> None:
    scene = Scene().add(queue("test", "default", gpu={"quota": 0}))
    scene.add(group("pg-p", priorityClassName="inference", refusals={"NonPreemptibleOverQuota": QUOTA}))
    scene.pending(gpus=1, says=QUOTA)
    explanation = scene.explain()
    assert ids(explanation) == ["queue.over-quota"]
    assert "spec.resources.gpu.quota of queue test" in explanation.findings[0].next


def test_the_trap_of_default_queue() -> None:
    scene = Scene().add(queue("default-queue", gpu={"quota": 0}))
    scene.add(group("pg-p", queue="default-queue", priorityClassName="inference"))
    scene.pending(queue=None, gpus=1, says=QUOTA.replace("test quota", "default-queue quota"))
    explanation = scene.explain()
    assert ids(explanation) == ["queue.default-queue-quota"]
    assert "priorityClassName=train" in explanation.findings[0].next


def test_once_a_node_is_chosen_the_queue_is_no_reason() -> None:
    scene = Scene()
    scene.pending(queue="nowhere")
    scene.add(request())
    assert ids(scene.explain()) == ["bind.in-progress"]


def test_queues_that_cannot_be_read_are_no_reason() -> None:
    scene = Scene()
    scene.pending(queue="nowhere")
    scene.absent.add("Queue")
    assert not [rule for rule in ids(scene.explain()) if rule.startswith("queue.")]
