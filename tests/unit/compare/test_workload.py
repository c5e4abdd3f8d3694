"""Adapting a workload file to a tenant: changes, notes and refusals."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lab.compare.kai_keys import meaning
from lab.compare.workload import WAVE_ANNOTATION, Fitted, fit
from lab.errors import ManifestsRefused
from lab.lint import parse
from lab.paths import assets
from lab.workloads.controllers import deployment, job, pod_group
from lab.workloads.modifiers import in_group
from lab.workloads.pods import cpu_pod, fraction_pod, gpu_pod
from tests.support.compare_world import target

Json = dict[str, Any]


def fitted(*docs: Json, to: Any = None) -> Fitted:
    return fit(parse(yaml.safe_dump_all(docs), "w.yaml"), to or target())


def with_notes(doc: Json, **notes: str) -> Json:
    meta = {**doc["metadata"], "annotations": {**doc["metadata"].get("annotations", {}), **notes}}
    return {**doc, "metadata": meta}


def test_namespace_label_and_scheduler_are_set() -> None:
    written = cpu_pod("a", namespace="elsewhere", scheduler=None)
    written["metadata"].setdefault("labels", {})["kai.scheduler/queue"] = "test"
    (one,) = fitted(written).placed("mine", "demo").objects
    meta = one.doc["metadata"]
    assert meta["namespace"] == "mine"
    assert meta["labels"] == {"kai.scheduler/queue": "test", "kailab": "demo"}
    assert one.doc["spec"]["schedulerName"] == "kai-scheduler"
    assert (one.workload, one.pods, one.queue) == ("Pod/a", 1, "test")


def test_fitting_workload_has_no_notes() -> None:
    assert fitted(gpu_pod("a"), fraction_pod("b", fraction=0.5)).notes == ()


def test_input_documents_are_not_changed() -> None:
    documents = parse(yaml.safe_dump(gpu_pod("a")))
    before = yaml.safe_dump(documents[0].data)
    fit(documents, target("", mode="default"))
    assert yaml.safe_dump(documents[0].data) == before


def test_default_scheduler_gets_no_queue_and_a_note() -> None:
    found = fitted(gpu_pod("a"), to=target("", mode="default"))
    (one,) = found.objects
    assert one.doc["spec"]["schedulerName"] == "default-scheduler"
    assert "kai.scheduler/queue" not in one.doc["metadata"].get("labels", {})
    assert one.queue == "test", "fairness is still by the queue of the workload file"
    (note,) = found.notes
    assert "kai.scheduler/queue: test is left out" in note
    assert note.startswith("ml: Pod a: ")


@pytest.mark.parametrize(
    ("doc", "words"),
    [
        (fraction_pod("a", fraction=0.5), "gpu-fraction: the default scheduler has no such key"),
        (pod_group("g", queue="test", minimum=2), "does not support PodGroups"),
    ],
)
def test_kai_features_are_refused_for_the_default_scheduler(doc: Json, words: str) -> None:
    with pytest.raises(ManifestsRefused) as caught:
        fitted(cpu_pod("x"), doc, to=target("", mode="default"))
    assert [line for line in caught.value.evidence if words in line]
    assert caught.value.evidence[0].startswith("w.yaml:")


def test_all_refusals_are_reported_together() -> None:
    docs = [fraction_pod(name, fraction=0.5) for name in ("a", "b")]
    with pytest.raises(ManifestsRefused) as caught:
        fitted(*docs, to=target("", mode="default"))
    assert len(caught.value.evidence) == 2


def test_kai_priority_class_is_removed_for_the_default_scheduler() -> None:
    doc = cpu_pod("a")
    doc["spec"]["priorityClassName"] = "train"
    found = fitted(doc, to=target("", mode="default"))
    assert "priorityClassName" not in found.objects[0].doc["spec"]
    assert any("priorityClassName: train is left out" in note for note in found.notes)
    assert fitted(doc).objects[0].doc["spec"]["priorityClassName"] == "train"


def test_gang_size_unknown_to_an_old_kai_is_noted() -> None:
    training = job("training", cpu_pod(), pods=2, minimum=2)
    assert not fitted(training).notes
    old = fitted(training, to=target("0.7.11"))
    assert "annotations" not in old.objects[0].doc["metadata"] or not old.objects[0].doc["metadata"]["annotations"]
    assert any(
        "kai.scheduler/batch-min-member: 2 is left out: KAI 0.7.11 has no such key" in note for note in old.notes
    )
    assert any("no gang" in note for note in fitted(training, to=target(mode="host-kai")).notes)


def test_fraction_container_name_is_refused_by_an_old_kai() -> None:
    doc = with_notes(fraction_pod("a", fraction=0.5), **{"gpu-fraction-container-name": "main"})
    assert not fitted(doc).notes
    with pytest.raises(ManifestsRefused) as caught:
        fitted(doc, to=target("0.7.11"))
    assert "gpu-fraction-container-name: KAI 0.7.11 has no such key" in caught.value.evidence[0]


@pytest.mark.parametrize(
    ("version", "key"), [("0.9.3", "kai.scheduler/nodepool"), ("0.16.8", "kai.scheduler/node-pool")]
)
@pytest.mark.parametrize("written", ["kai.scheduler/nodepool", "kai.scheduler/node-pool"])
def test_keys_are_translated_to_the_kai_version(version: str, key: str, written: str) -> None:
    doc = cpu_pod("a")
    doc["metadata"]["labels"][written] = "pool"
    found = fitted(doc, to=target(version))
    assert found.objects[0].doc["metadata"]["labels"][key] == "pool"
    assert bool(found.notes) is (written != key)


def test_keys_are_translated_in_pod_templates() -> None:
    found = fitted(deployment("serving", gpu_pod(), replicas=3), to=target("", mode="default"))
    (one,) = found.objects
    assert "kai.scheduler/queue" not in one.doc["spec"]["template"]["metadata"]["labels"]
    assert one.doc["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"
    assert (one.workload, one.pods, one.queue) == ("Deployment/serving", 3, "test")


def test_keys_written_by_kai_are_removed() -> None:
    found = fitted(with_notes(cpu_pod("a"), **{"received-resource-type": "Fraction"}))
    assert "received-resource-type" not in found.objects[0].doc["metadata"]["annotations"]
    assert any("KAI writes it itself" in note for note in found.notes)


def test_pod_without_a_queue_gets_the_first_leaf_queue() -> None:
    found = fitted(cpu_pod("a", queue=None))
    assert found.objects[0].doc["metadata"]["labels"]["kai.scheduler/queue"] == "test"
    assert found.objects[0].queue == "test"
    assert any("no queue given: uses test" in note for note in found.notes)


def test_unknown_queue_is_refused() -> None:
    with pytest.raises(ManifestsRefused, match=r"^tenant ml: Pod a: ") as caught:
        fitted(cpu_pod("a", queue="nowhere"))
    assert "w.yaml:" in caught.value.evidence[0]


def test_default_scheduler_is_kept_and_others_are_refused() -> None:
    found = fitted(cpu_pod("a", scheduler="default-scheduler", queue=None), cpu_pod("b"))
    assert found.objects[0].doc["spec"]["schedulerName"] == "default-scheduler"
    assert any("is kept" in note for note in found.notes)
    with pytest.raises(ManifestsRefused) as caught:
        fitted(cpu_pod("a", scheduler="volcano"))
    assert "unknown scheduler 'volcano'" in caught.value.evidence[0]


@pytest.mark.parametrize(
    ("doc", "words"),
    [
        ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}, "unsupported kind"),
        ({"global": {"tag": "v1"}}, "unsupported kind"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}, "it contains no pods"),
        ({**cpu_pod("x"), "metadata": {"generateName": "x-"}}, "metadata.name is missing"),
        (with_notes(cpu_pod("x"), **{WAVE_ANNOTATION: "soon"}), "must be a number"),
    ],
)
def test_unsupported_document_is_refused(doc: Json, words: str) -> None:
    with pytest.raises(ManifestsRefused) as caught:
        fitted(doc)
    assert words in caught.value.evidence[0]


def test_waves_keep_file_order_and_drop_their_annotation() -> None:
    late, early = with_notes(cpu_pod("late"), **{WAVE_ANNOTATION: "2"}), cpu_pod("early")
    found = fitted(late, early, cpu_pod("also"))
    assert [[one.workload for one in wave] for wave in found.waves] == [["Pod/early", "Pod/also"], ["Pod/late"]]
    assert WAVE_ANNOTATION not in found.objects[0].doc["metadata"]["annotations"]


def test_manual_pod_group_is_renamed_in_own_kai_tenants_only() -> None:
    docs = [pod_group("gang", queue="test", minimum=1), in_group(cpu_pod("a"), "gang"), in_group(cpu_pod("b"), "other")]
    group, a, b = fitted(*docs).placed("ns", "demo").objects
    assert group.doc["metadata"]["name"] == "ns-gang"
    assert a.doc["metadata"]["annotations"]["pod-group-name"] == "ns-gang"
    assert b.doc["metadata"]["annotations"]["pod-group-name"] == "other"
    assert (group.pods, group.queue) == (0, "test")
    with pytest.raises(ManifestsRefused) as caught:
        fitted(*docs, to=target(mode="host-kai"))
    assert "exist on the host only" in caught.value.evidence[0]


@pytest.mark.parametrize(
    ("spec", "pods"),
    [({}, 1), ({"parallelism": 3}, 3), ({"parallelism": 3, "completions": 2}, 2), ({"completions": 5}, 1)],
)
def test_pods_of_a_job_are_its_parallel_pods(spec: Json, pods: int) -> None:
    doc = job("j", cpu_pod())
    doc["spec"] = {"template": doc["spec"]["template"], **spec}
    assert fitted(doc).objects[0].pods == pods


@pytest.mark.parametrize("version", ["0.7.11", "0.9.3", "0.9.8", "0.12.23", "0.14.7", "0.16.8", "0.17.0"])
def test_example_fits_every_kai_version(version: str) -> None:
    text = (assets("manifests") / "compare" / "mixed.yaml").read_text()
    found = fit(parse(text, "mixed.yaml"), target(version))
    assert [sum(one.pods for one in wave) for wave in found.waves] == [7, 1]
    gang = ("0.14.7", "0.16.8", "0.17.0")
    assert any("batch-min-member" in note for note in found.notes) is (version not in gang)


def test_keys_have_a_version_independent_meaning() -> None:
    assert meaning("kai.scheduler/nodepool") == meaning("kai.scheduler/node-pool") == "node_pool"
    assert meaning("runai-gpu-group/8c1f") == "gpu_groups"
    assert meaning("app") == ""
