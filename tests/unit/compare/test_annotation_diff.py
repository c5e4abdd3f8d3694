"""Differences between the keys two schedulers write, without values that differ in every run."""

from __future__ import annotations

from typing import Any

from lab.compare.annotation_diff import SchedulerMarks, differences, form, marks_of
from lab.compare.model import Difference
from tests.support.compare_world import HOST, SPACE, group, planned, recording, seen

UUIDS = ("8c1f0d7e-1111-4222-8333-444455556666", "0a0b0c0d-1111-4222-8333-444455556666")


def annotated(name: str, notes: dict[str, str], **more: Any) -> Any:
    return seen(name, 2.0, node="worker", ready=True, annotations=notes, **more)


def test_keys_of_the_manifest_and_of_kubernetes_are_ignored() -> None:
    doc = {"metadata": {"annotations": {"mine": "1"}, "labels": {"kai.scheduler/queue": "test"}}}
    notes = {"mine": "1", "vcluster.loft.sh/object-uid": "x", "kubernetes.io/config": "y", "pod-group-name": "pg"}
    record = recording(annotated("a", notes, labels={"kailab": "demo", "job-name": "a"}))
    found = marks_of(record, [planned("a", doc=doc)], by_host=False)
    assert found.keys == {("a", "annotation", "pod_group"): "pod-group-name: pg"}


def test_keys_of_a_pod_template_are_ignored() -> None:
    doc = {"spec": {"template": {"metadata": {"labels": {"kai.scheduler/queue": "test", "app": "j"}}}}}
    record = recording(seen("j-x", 1.0, labels={"app": "j"}, meta={"owner": "Job/j"}))
    assert marks_of(record, [planned("j", kind="Job", doc=doc)], by_host=False).keys == {}


def test_names_and_uids_of_a_run_are_no_difference() -> None:
    both = []
    for name, uuid, random in (("a", UUIDS[0], "abc1234"), ("a", UUIDS[1], "xyz9876")):
        notes = {
            "pod-group-name": f"pg-{name}-uid-{SPACE}-{name}",
            "runai/shared-gpu-configmap": f"{name}-{random}-shared-gpu",
        }
        record = recording(annotated(name, notes, labels={"runai-gpu-group": uuid, f"runai-gpu-group/{uuid}": uuid}))
        both.append(marks_of(record, [planned("a")], by_host=False))
    assert differences(*both) == ()
    texts = set(both[0].keys.values())
    assert "pod-group-name: pg-<name>-<uid>" in texts
    assert "runai/shared-gpu-configmap: <name>-<random>-shared-gpu" in texts
    assert "runai-gpu-group/<uuid>: <uuid>" in texts


def test_keys_of_host_pods_count_for_the_hosts_kai_only() -> None:
    record = recording(annotated("a", {}), annotated("a", {"received-resource-type": "Regular"}, side=HOST))
    on_host = marks_of(record, [planned("a")], by_host=True).keys
    assert on_host["a", "annotation", "received_type"] == "received-resource-type: Regular"
    assert ("a", "annotation", "received_type") not in marks_of(record, [planned("a")], by_host=False).keys


def test_short_names_are_replaced_as_whole_words_only() -> None:
    view = seen("a", 1.0).pod.view
    assert form("pg-a-train", view) == "pg-<name>-train"
    assert form("at 2026-11-21T12:00:00Z", view) == "at <time>"


def keys(**found: str) -> SchedulerMarks:
    return SchedulerMarks({("a", "annotation", name): text for name, text in found.items()}, {})


def test_missing_and_changed_keys_are_differences() -> None:
    a, b = keys(same="s: 1", mine="m: 1", both="k: 1"), keys(same="s: 1", yours="y: 1", both="k: 2")
    assert differences(a, b) == (
        Difference("annotation", "both", "k: 1", "k: 2", ("a",)),
        Difference("annotation", "mine", "m: 1", "", ("a",)),
        Difference("annotation", "yours", "", "y: 1", ("a",)),
    )


def test_renamed_key_is_one_row() -> None:
    a, b = keys(node_pool="kai.scheduler/nodepool: x"), keys(node_pool="kai.scheduler/node-pool: x")
    (row,) = differences(a, b)
    assert (row.name, row.a, row.b) == ("node_pool", "kai.scheduler/nodepool: x", "kai.scheduler/node-pool: x")


def test_same_difference_of_several_pods_is_one_row() -> None:
    a = SchedulerMarks({(lane, "label", "x"): "x: 1" for lane in ("a", "b")}, {})
    b = SchedulerMarks({(lane, "label", "x"): "x: 2" for lane in ("a", "b")}, {})
    assert differences(a, b) == (Difference("label", "x", "x: 1", "x: 2", ("a", "b")),)


def test_pod_of_one_side_only_is_no_difference() -> None:
    a = SchedulerMarks({("a", "label", "x"): "x: 1", ("b", "label", "x"): "x: 1"}, {})
    assert differences(a, SchedulerMarks({("a", "label", "x"): "x: 1"}, {})) == ()


def test_scheduler_that_writes_nothing_differs_in_every_key() -> None:
    (row,) = differences(keys(x="x: 1"), SchedulerMarks({}, {}))
    assert (row.a, row.b) == ("x: 1", "")


def test_pod_groups_are_summarized_per_workload() -> None:
    both = []
    for names in (("pg", "pg"), ("pg-1", "pg-2")):
        pods = [seen(f"j-{n}", 1.0, group=name, meta={"owner": "Job/j"}) for n, name in enumerate(names)]
        made = tuple(group(name, minimum=3 - len({*names}), of="Job/j") for name in dict.fromkeys(names))
        both.append(marks_of(recording(*pods, groups=made), [planned("j", kind="Job")], by_host=False))
    assert both[0].groups == {"Job/j": "1 × (minMember 2, train, queue test, owner Job, 2 pods)"}
    assert both[1].groups == {"Job/j": "2 × (minMember 1, train, queue test, owner Job, 1 pod)"}
    rows = [row for row in differences(*both) if row.kind == "PodGroup"]
    assert [(row.name, row.a, row.b) for row in rows] == [("Job/j", both[0].groups["Job/j"], both[1].groups["Job/j"])]


def test_pods_without_a_group_have_an_empty_summary() -> None:
    found = marks_of(recording(seen("a", 1.0)), [planned("a")], by_host=False)
    assert found.groups == {"Pod/a": ""}
