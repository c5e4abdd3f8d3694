"""A workload file made fit for tenants: what is changed, what is told, what is refused."""

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


def test_namespace_owner_label_and_scheduler_become_the_tenants_own() -> None:
    written = cpu_pod("a", namespace="elsewhere", scheduler=None)
    written["metadata"].setdefault("labels", {})["kai.scheduler/queue"] = "test"
    (one,) = fitted(written).placed("mine", "demo").objects
    meta = one.doc["metadata"]
    assert meta["namespace"] == "mine"
    assert meta["labels"] == {"kai.scheduler/queue": "test", "kailab": "demo"}
    assert one.doc["spec"]["schedulerName"] == "kai-scheduler"
    assert (one.workload, one.pods, one.queue) == ("Pod/a", 1, "test")


def test_nothing_is_told_of_what_fits() -> None:
    assert fitted(gpu_pod("a"), fraction_pod("b", fraction=0.5)).notes == ()


def test_the_written_documents_stay_as_they_are() -> None:
    documents = parse(yaml.safe_dump(gpu_pod("a")))
    before = yaml.safe_dump(documents[0].data)
    fit(documents, target("", mode="default"))
    assert yaml.safe_dump(documents[0].data) == before


def test_the_default_scheduler_gets_no_queue_and_is_told_so() -> None:
    found = fitted(gpu_pod("a"), to=target("", mode="default"))
    (one,) = found.objects
    assert one.doc["spec"]["schedulerName"] == "default-scheduler"
    assert "kai.scheduler/queue" not in one.doc["metadata"].get("labels", {})
    assert one.queue == "test", "fairness is still by the queue of the workload file"
    (told,) = found.notes
    assert "kai.scheduler/queue: test is left out" in told
    assert told.startswith("ml: Pod a: ")


@pytest.mark.parametrize(
    ("doc", "words"),
    [
        (fraction_pod("a", fraction=0.5), "gpu-fraction: the default scheduler has no such key"),
        (pod_group("g", queue="test", minimum=2), "does not support PodGroups"),
    ],
)
def test_what_the_default_scheduler_cannot_do_is_refused(doc: Json, words: str) -> None:
    with pytest.raises(ManifestsRefused) as caught:
        fitted(cpu_pod("x"), doc, to=target("", mode="default"))
    assert [line for line in caught.value.evidence if words in line]
    assert caught.value.evidence[0].startswith("w.yaml:")


def test_all_refusals_come_at_once() -> None:
    docs = [fraction_pod(name, fraction=0.5) for name in ("a", "b")]
    with pytest.raises(ManifestsRefused) as caught:
        fitted(*docs, to=target("", mode="default"))
    assert len(caught.value.evidence) == 2


def test_priority_classes_of_kai_are_left_out_for_the_default_scheduler() -> None:
    doc = cpu_pod("a")
    doc["spec"]["priorityClassName"] = "train"
    found = fitted(doc, to=target("", mode="default"))
    assert "priorityClassName" not in found.objects[0].doc["spec"]
    assert any("priorityClassName: train is left out" in told for told in found.notes)
    assert fitted(doc).objects[0].doc["spec"]["priorityClassName"] == "train"


def test_a_gang_that_an_old_kai_does_not_know_is_told() -> None:
    training = job("training", cpu_pod(), pods=2, minimum=2)
    assert not fitted(training).notes
    old = fitted(training, to=target("0.7.11"))
    assert "annotations" not in old.objects[0].doc["metadata"] or not old.objects[0].doc["metadata"]["annotations"]
    assert any(
        "kai.scheduler/batch-min-member: 2 is left out: KAI 0.7.11 has no such key" in told for told in old.notes
    )
    assert any("no gang" in told for told in fitted(training, to=target(mode="host-kai")).notes)


def test_a_container_of_its_own_for_the_fraction_is_refused_where_it_is_not_known() -> None:
    doc = with_notes(fraction_pod("a", fraction=0.5), **{"gpu-fraction-container-name": "main"})
    assert not fitted(doc).notes
    with pytest.raises(ManifestsRefused) as caught:
        fitted(doc, to=target("0.7.11"))
    assert "gpu-fraction-container-name: KAI 0.7.11 has no such key" in caught.value.evidence[0]


@pytest.mark.parametrize(
    ("version", "key"), [("0.9.3", "kai.scheduler/nodepool"), ("0.16.8", "kai.scheduler/node-pool")]
)
@pytest.mark.parametrize("written", ["kai.scheduler/nodepool", "kai.scheduler/node-pool"])
def test_keys_are_spelled_as_the_version_spells_them(version: str, key: str, written: str) -> None:
    doc = cpu_pod("a")
    doc["metadata"]["labels"][written] = "pool"
    found = fitted(doc, to=target(version))
    assert found.objects[0].doc["metadata"]["labels"][key] == "pool"
    assert bool(found.notes) is (written != key)


def test_keys_are_translated_in_templates_too() -> None:
    found = fitted(deployment("serving", gpu_pod(), replicas=3), to=target("", mode="default"))
    (one,) = found.objects
    assert "kai.scheduler/queue" not in one.doc["spec"]["template"]["metadata"]["labels"]
    assert one.doc["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"
    assert (one.workload, one.pods, one.queue) == ("Deployment/serving", 3, "test")


def test_what_kai_writes_itself_is_left_out() -> None:
    found = fitted(with_notes(cpu_pod("a"), **{"received-resource-type": "Fraction"}))
    assert "received-resource-type" not in found.objects[0].doc["metadata"]["annotations"]
    assert any("KAI writes it itself" in told for told in found.notes)


def test_a_pod_without_a_queue_goes_to_the_tenants_first_leaf() -> None:
    found = fitted(cpu_pod("a", queue=None))
    assert found.objects[0].doc["metadata"]["labels"]["kai.scheduler/queue"] == "test"
    assert found.objects[0].queue == "test"
    assert any("no queue given: uses test" in told for told in found.notes)


def test_lint_refuses_a_queue_that_the_tenant_does_not_have() -> None:
    with pytest.raises(ManifestsRefused, match=r"^tenant ml: Pod a: ") as caught:
        fitted(cpu_pod("a", queue="nowhere"))
    assert "w.yaml:" in caught.value.evidence[0]


def test_a_pod_may_insist_on_the_default_scheduler_and_on_no_other() -> None:
    found = fitted(cpu_pod("a", scheduler="default-scheduler", queue=None), cpu_pod("b"))
    assert found.objects[0].doc["spec"]["schedulerName"] == "default-scheduler"
    assert any("is kept" in told for told in found.notes)
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
def test_what_is_no_workload_is_refused(doc: Json, words: str) -> None:
    with pytest.raises(ManifestsRefused) as caught:
        fitted(doc)
    assert words in caught.value.evidence[0]


def test_waves_keep_the_order_of_the_file_and_their_mark_is_not_applied() -> None:
    late, early = with_notes(cpu_pod("late"), **{WAVE_ANNOTATION: "2"}), cpu_pod("early")
    found = fitted(late, early, cpu_pod("also"))
    assert [[one.workload for one in wave] for wave in found.waves] == [["Pod/early", "Pod/also"], ["Pod/late"]]
    assert WAVE_ANNOTATION not in found.objects[0].doc["metadata"]["annotations"]


def test_gangs_by_hand_get_a_name_of_their_own_in_own_kai_tenants_only() -> None:
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
def test_pods_of_a_job_at_a_time(spec: Json, pods: int) -> None:
    doc = job("j", cpu_pod())
    doc["spec"] = {"template": doc["spec"]["template"], **spec}
    assert fitted(doc).objects[0].pods == pods


@pytest.mark.parametrize("version", ["0.7.11", "0.9.3", "0.9.8", "0.12.23", "0.14.7", "0.16.8", "0.17.0"])
def test_the_example_fits_every_version(version: str) -> None:
    text = (assets("manifests") / "compare" / "mixed.yaml").read_text()
    found = fit(parse(text, "mixed.yaml"), target(version))
    assert [sum(one.pods for one in wave) for wave in found.waves] == [7, 1]
    gang = ("0.14.7", "0.16.8", "0.17.0")
    assert any("batch-min-member" in told for told in found.notes) is (version not in gang)


def test_meanings_of_keys() -> None:
    assert meaning("kai.scheduler/nodepool") == meaning("kai.scheduler/node-pool") == "node_pool"
    assert meaning("runai-gpu-group/8c1f") == "gpu_groups"
    assert meaning("app") == ""
