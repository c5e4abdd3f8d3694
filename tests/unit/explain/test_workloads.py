"""Explanations of workloads: owners of any kind, groups of pods with one reason, and what the user's words name."""

from __future__ import annotations

from typing import Any

import pytest

from lab.errors import SpecError
from lab.explain import LabSnapshot, NoSuchPod, WorkloadExplanation, explain_workload, overview_of
from lab.explain.owners import Ref, owners
from lab.explain.subject import Subject
from tests.support.explain_world import SPACE, Scene, deployment, group, meta, pod

NONE = "no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs."


def by(kind: str, name: str) -> dict[str, Any]:
    """Metadata of an object with a controller."""
    return {"ownerReferences": [{"kind": kind, "name": name, "controller": True}]}


def gang(scene: Scene, name: str, size: int, kind: str = "PyTorchJob", **more: Any) -> None:
    """Pending pods of one PodGroup, owned by a kind that snapshots do not have."""
    made = group(f"pg-{name}", minMember=size)
    made["metadata"] |= by(kind, name)
    scene.add(made)
    for number in range(size):
        each = {"group": f"pg-{name}", "gpus": 3, "meta": by(kind, name), **more}
        scene.pending(pod(f"{name}-{number}", **each), says=NONE)


def asked(scene: Scene, kind: str, name: str) -> WorkloadExplanation:
    return explain_workload(LabSnapshot(scene.world), kind, name, SPACE)


def test_a_gang_is_explained_once() -> None:
    scene = Scene()
    gang(scene, "train", 10)
    found = asked(scene, "pytorchjob", "train")
    assert (found.kind, found.summary, found.settled) == ("PyTorchJob", "10 pods: 10 unbound", True)
    (same,) = found.reasons
    assert same.title == "PyTorchJob team/train (10 pods)"
    assert [finding.rule for finding in found.findings] == ["nodes.gpus"]


def test_pods_with_other_reasons_are_another_group() -> None:
    scene = Scene()
    gang(scene, "train", 3)
    made = pod("train-2", group="pg-train", meta=by("PyTorchJob", "train"), node="worker-1", waiting="ErrImagePull")
    scene.add(made)
    found = asked(scene, "PyTorchJob", "train")
    assert [(one.first.stage, len(one.pods)) for one in found.reasons] == [("unbound", 2), ("bound", 1)]
    assert found.pods == {"unbound": 2, "bound": 1}


def test_a_deployment_is_followed_over_its_replica_set() -> None:
    scene = Scene()
    web = {**deployment("web", SPACE, "x", want=2), "metadata": meta("web", SPACE)}
    scene.add(web, {**web, "kind": "ReplicaSet", "metadata": meta("web-1", SPACE, **by("Deployment", "web"))})
    scene.add(pod("web-1-a", node="worker-1", ready=True, meta=by("ReplicaSet", "web-1")))
    scene.pending(pod("web-1-b", queue="nowhere", meta=by("ReplicaSet", "web-1")))
    found = asked(scene, "deploy", "web")
    assert found.summary == "2 pods: 1 unbound, 1 running"
    assert [finding.rule for finding in found.findings] == ["queue.unknown"]
    assert asked(scene, "ReplicaSet", "web-1").owners == ("Deployment team/web",)


def test_missing_pods_are_a_reason_of_the_workload() -> None:
    scene = Scene()
    scene.add({"kind": "Job", "metadata": meta("stuck", SPACE), "spec": {"suspend": True}})
    found = asked(scene, "jobs", "stuck")
    assert (found.stage, found.summary) == ("missing", "no pods")
    assert [finding.rule for finding in found.findings] == ["spec.no-pods-wanted"]


def test_a_workload_that_wants_no_pods_has_no_problem() -> None:
    scene = Scene()
    ended = {"spec": {"completions": 1}, "status": {"succeeded": 1}}
    scene.add({"kind": "Job", "metadata": meta("over", SPACE), **ended})
    found = asked(scene, "job", "over")
    assert (found.settled, found.summary) == (True, "wants no pods")


def test_conditions_of_a_workload_that_no_rule_explains() -> None:
    scene = Scene()
    failed = {"type": "Failed", "status": "True", "reason": "Invalid", "message": "no master"}
    made = {"kind": "PyTorchJob", "metadata": meta("train", SPACE), "status": {"conditions": [failed]}}
    scene.add(made).event(made, "Rejected", "spec is invalid")
    found = asked(scene, "pytorchjobs", "train")
    assert not found.settled
    assert found.messages[0] == "condition Failed=True (Invalid): no master"
    assert "spec is invalid" in found.messages[1]


def test_pods_of_a_pod_group_without_an_owner_belong_to_it() -> None:
    scene = Scene().add(group("mine", minMember=2))
    for name in ("a", "b"):
        scene.add(pod(name, group="mine", node="worker-1", ready=True))
    assert owners(scene.world).workload(Ref("Pod", SPACE, "a")) == Ref("PodGroup", SPACE, "mine")
    assert asked(scene, "pg", "mine").pods == {"running": 2}


def test_the_owner_of_a_pod_group_ends_the_chain() -> None:
    scene = Scene()
    made = group("pg-ray")
    made["metadata"] |= by("RayJob", "ray")
    scene.add(made, pod("ray-0", group="pg-ray", meta=by("RayCluster", "ray-x"), node="worker-1", ready=True))
    chain = owners(scene.world).chains[Ref("Pod", SPACE, "ray-0")]
    assert [ref.kind for ref in chain] == ["RayCluster", "RayJob"]
    assert asked(scene, "rayjob", "ray").settled


def test_an_unknown_workload_is_refused_with_similar_names() -> None:
    scene = Scene()
    gang(scene, "train", 1)
    with pytest.raises(NoSuchPod, match="no Job team/train exists") as caught:
        asked(scene, "job", "train")
    assert caught.value.evidence == ("team/train-0",)


@pytest.mark.parametrize(
    ("words", "namespace", "subject"),
    [
        (["p"], "team", ("", "team", "p")),
        (["team/p"], None, ("", "team", "p")),
        (["pod", "team/p"], None, ("", "team", "p")),
        (["Deployment", "team/web"], None, ("Deployment", "team", "web")),
        (["sts", "web"], "team", ("StatefulSet", "team", "web")),
        (["pytorchjobs/train"], "team", ("PyTorchJob", "team", "train")),
        (["pytorchjob/team/train"], None, ("PyTorchJob", "team", "train")),
        (["team/web"], None, ("Deployment", "team", "web")),
        (["other/p"], None, ("", "other", "p")),
    ],
)
def test_words_name_a_pod_or_a_workload(words: list[str], namespace: str | None, subject: tuple[str, str, str]) -> None:
    scene = Scene().add(pod("p"), {**deployment("web", SPACE, "x"), "metadata": meta("web", SPACE)})
    names = {"kind": "PyTorchJob", "plural": "pytorchjobs", "singular": "pytorchjob"}
    scene.add({"kind": "CustomResourceDefinition", "metadata": meta("x"), "spec": {"names": names}})
    scene.add({"kind": "StatefulSet", "metadata": meta("web", SPACE)})
    assert Subject.of(scene.world, words, namespace) == subject


@pytest.mark.parametrize("words", [["nonsense", "p"], ["pod", "a", "b"], ["pod", ""]])
def test_other_words_are_refused(words: list[str]) -> None:
    with pytest.raises(SpecError):
        Subject.of(Scene().world, words, None)


def test_a_namespace_named_like_a_kind_is_a_namespace() -> None:
    scene = Scene().add({"kind": "Namespace", "metadata": meta("job")}, pod("p", "job"))
    assert Subject.of(scene.world, ["job/p"], None) == ("", "job", "p")


def test_the_overview_names_each_reason_once() -> None:
    scene = Scene()
    for number in range(3):
        gang(scene, f"train-{number}", 10)
    scene.pending(pod("lost", queue="nowhere"))
    (side,) = overview_of(LabSnapshot(scene.world)).sides
    assert len(side.unwell) == 31
    assert [one.title for one in side.reasons] == ["PyTorchJob team/train-0 and 2 more (30 pods)", "Pod team/lost"]


def test_pods_of_a_daemon_set_with_one_reason_are_one_entry() -> None:
    scene = Scene()
    for node in ("worker-1", "worker-2"):
        broken = {"node": node, "waiting": "ErrImagePull", "scheduler": "default-scheduler", "group": None}
        scene.add(pod(f"agent-{node}", meta=by("DaemonSet", "agent"), **broken))
    (side,) = overview_of(LabSnapshot(scene.world)).sides
    assert [one.title for one in side.reasons] == ["DaemonSet team/agent (2 pods)"]
    assert "queue" not in (side.unwell[0].facts or {})
