"""Explanations of evictions: the action, for whom, whether KAI's rules required it, and events that are lost."""

from __future__ import annotations

from typing import Any

import pytest

from lab.explain import NoSuchPod, explain_evictions
from lab.explain.owners import Ref
from tests.support.explain_world import SPACE, Scene, group, meta, pod

RECLAIM = (
    "Pod team/p was preempted by workload team/pg-other.\n"
    "test uses <GPU: {uses}, CPU: 0.3 (cores), memory: 0.1 (GB)> with a quota of <GPU: 2, CPU: Unlimited (cores),"
    " memory: Unlimited (GB)>, fair-share of <GPU: 4, CPU: 1 (cores), memory: 1 (GB)> and queue priority of <100>.\n"
    "other uses <GPU: {other}, CPU: 0 (cores), memory: 0 (GB)> with a quota of <GPU: 2, CPU: Unlimited (cores),"
    " memory: Unlimited (GB)>, fair-share of <GPU: 4, CPU: 1 (cores), memory: 1 (GB)> and queue priority of <100>."
)
CONSOLIDATION = "Pod team/p was preempted and rescheduled due to bin packing (resource consolidation) procedure"
PREEMPT = "Pod team/p was preempted by higher priority workload team/pg-other"
POD = Ref("Pod", SPACE, "p")


def evicted(scene: Scene, action: str, message: str, about: str = "pg-p", times: int = 1) -> Scene:
    """Add the event Evict as KAI writes it."""
    made = next((g for g in scene.objects["PodGroup"] if g["metadata"]["name"] == about), group(about))
    scene.event(made, "Evict", message, type="Normal")
    notes = {"evictor-action-type": action, "evictor-pod-group-name": "pg-other", "num-evicted-pods": "1"}
    scene.objects["Event"][-1]["metadata"]["annotations"] = {**notes, "evictor-pod-group-namespace": SPACE}
    scene.objects["Event"][-1]["count"] = times
    return scene


def scene(**owner: Any) -> Scene:
    """A victim p and another workload that runs."""
    made = Scene().add(pod("p"), pod("other", node="worker-1", ready=True))
    for name, class_ in (("p", "train"), ("other", "build")):
        one = group(f"pg-{name}", priorityClassName=class_)
        one["metadata"]["ownerReferences"] = [{"kind": owner.get("kind", "Job"), "name": name}]
        made.add(one)
    for name, value in (("train", 50), ("build", 100)):
        made.add({"kind": "PriorityClass", "metadata": meta(name), "value": value})
    return made


@pytest.mark.parametrize(
    ("uses", "other", "required", "words"),
    [
        ("6", "0", "yes", "queue test used 6 GPUs, 2 above its fair share, and other used less than its share"),
        ("3", "0", "yes", "queue test used 3 GPUs, above its quota, and other used less than its share"),
        ("6", "5", "no", "queue other used its whole fair share of 4 GPUs already"),
        ("2", "0", "unknown", "queue test used 2 GPUs, no more than its share; another resource may have decided"),
    ],
)
def test_a_reclaim_is_judged_by_the_figures_of_its_event(uses: str, other: str, required: str, words: str) -> None:
    made = evicted(scene(), "reclaim", RECLAIM.format(uses=uses, other=other))
    found = explain_evictions(made.world, POD)
    (finding,) = found.findings
    assert finding.rule == "eviction.reclaim"
    assert finding.what == f"reclaim evicted Pod team/p for Job team/other at 11:59:55: {words}"
    assert found.required == (required,)
    assert f"queue test used {uses} GPUs; quota 2, fair share 4, priority 100" in finding.evidence
    assert "PodGroup team/pg-other, for which it was evicted, now has 1 pod, 1 of them on a node" in finding.evidence


@pytest.mark.parametrize(("low", "required"), [("train", "yes"), ("build", "no")])
def test_a_preemption_is_judged_by_priorities(low: str, required: str) -> None:
    made = evicted(scene(), "preempt", PREEMPT)
    made.objects["PodGroup"][0]["spec"]["priorityClassName"] = low
    found = explain_evictions(made.world, POD)
    assert found.required == (required,)
    assert "priority class of the other: build (100)" in found.findings[0].evidence


@pytest.mark.parametrize(("kind", "required"), [("Job", "yes"), ("Pod", "no")])
def test_consolidation_loses_a_bare_pod(kind: str, required: str) -> None:
    found = explain_evictions(evicted(scene(kind=kind), "consolidation", CONSOLIDATION).world, POD)
    assert found.required == (required,)
    assert ("lost instead of moved" in found.findings[0].what) == (kind == "Pod")


def test_a_deleted_bare_pod_is_known_by_its_event() -> None:
    made = evicted(scene(kind="Pod"), "consolidation", CONSOLIDATION).remove("Pod", "p").remove("PodGroup", "pg-p")
    found = explain_evictions(made.world, POD)
    assert found.required == ("no",)
    assert "pod team/p no longer exists" in found.findings[0].evidence


def test_a_workload_has_all_its_evictions_together() -> None:
    made = scene()
    for number in range(3):
        evicted(made, "preempt", PREEMPT.replace("team/p ", f"team/p-{number} "))
    (one,) = explain_evictions(made.world, Ref("Job", SPACE, "p")).evictions
    assert (one.pods, one.times, one.workload) == (("p-0", "p-1", "p-2"), 3, "Job team/p")
    assert len(explain_evictions(made.world).evictions) == 1


def test_the_counter_shows_that_events_are_lost() -> None:
    made = evicted(scene(), "preempt", PREEMPT, times=25)
    world = made.world
    labels = 'action="preempt",namespace="team",nodepool="default",podgroup="pg-p",uid="u"'
    object.__setattr__(world, "metrics", (f"kai_pod_group_evicted_pods_total{{{labels}}} 40",))
    found = explain_evictions(world, POD)
    assert found.findings[-1].what == "preempt evicted 40 pods of PodGroup team/pg-p; events of 25 exist"
    assert found.counted == {"team/pg-p preempt": 40}


def test_no_eviction_and_an_unknown_name() -> None:
    found = explain_evictions(scene().world, POD)
    assert (found.findings, found.settled) == ((), False)
    with pytest.raises(NoSuchPod, match="no eviction, pod or workload team/nobody exists"):
        explain_evictions(scene().world, Ref("", SPACE, "nobody"))


def test_an_event_without_annotations_is_read_by_its_message() -> None:
    made = scene().event(scene().objects["PodGroup"][0], "Evict", CONSOLIDATION)
    assert [one.action for one in explain_evictions(made.world).evictions] == ["consolidation"]


def on_host(name: str, **more: Any) -> dict[str, Any]:
    """A tenant's pod default/``name`` on the host."""
    made = pod(f"{name}-x-default-x-blue", **more)
    made["metadata"]["labels"]["vcluster.loft.sh/managed-by"] = "blue"
    keys = {"object-name": name, "object-namespace": "default", "object-uid": f"inside-{name}"}
    made["metadata"].setdefault("annotations", {}).update({f"vcluster.loft.sh/{key}": v for key, v in keys.items()})
    return made


def test_a_tenants_pod_is_found_on_the_host_by_its_name_there() -> None:
    made = Scene().add(group("pg-p"), group("pg-q"), on_host("p-1"))
    evicted(made, "preempt", f"Pod {SPACE}/p-x-default-x-blue was preempted by higher priority workload x/y")
    evicted(made, "preempt", f"Pod {SPACE}/q was preempted by higher priority workload x/y", about="pg-q")
    for subject in (Ref("Pod", "default", "p"), None):
        (one,) = explain_evictions(made.world, subject, tenant="blue").evictions
        assert one.pods == ("p-x-default-x-blue",)
    assert explain_evictions(made.world, Ref("Pod", "default", "p"), tenant="blue").subject.endswith("of tenant blue")
    assert not explain_evictions(made.world, tenant="red").evictions
    with pytest.raises(NoSuchPod, match="other/p") as unknown:
        explain_evictions(made.world, Ref("Pod", "other", "p"), tenant="blue")
    assert unknown.value.fix == "check name and namespace; namespaces with pods: default"


def test_a_workload_of_a_tenant_has_the_evictions_of_its_pods() -> None:
    made = Scene().add(group("pg-p"), on_host("train-abcde"))
    message = f"Pod {SPACE}/train-abcde-x-default-x-blue was preempted by higher priority workload x/y"
    evicted(made, "preempt", message)
    (one,) = explain_evictions(made.world, Ref("Job", "default", "train"), tenant="blue").evictions
    assert one.pods == ("train-abcde-x-default-x-blue",)
