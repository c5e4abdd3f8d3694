"""Order, echoes, names that do not exist, short text, the picture of a cluster, and the table of rules."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lab.explain import LabSnapshot, NoSuchPod, TenantSnapshot, all_rules, explain_pod, explained, overview_of
from lab.explain.registry import THEMES
from lab.findings import Certainty
from lab.serialization import to_json
from lab.snapshot.kai_installation import installation
from tests.support.explain_world import (
    GROUP,
    SPACE,
    Scene,
    deployment,
    group,
    ids,
    meta,
    node,
    pod,
    queue,
    request,
    reservation,
)

NONE = "no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs."


def test_ids_are_unique_and_by_theme() -> None:
    names = [rule.id for rule in all_rules()]
    assert len(set(names)) == len(names)
    places = [THEMES.index(rule.theme) for rule in all_rules()]
    assert places == sorted(places)


def test_every_rule_is_expected_by_a_test() -> None:
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    text += (Path(__file__).parents[2] / "data" / "explain_messages.toml").read_text()
    assert [rule.id for rule in all_rules() if f'"{rule.id}"' not in text] == []


def test_every_rule_says_what_when_and_from_where() -> None:
    for rule in all_rules():
        assert re.fullmatch(r"[a-z]+\.[a-z]+(-[a-z]+)*", rule.id)
        assert rule.title
        assert rule.source
        assert rule.stages
        assert not rule.title.endswith(".")
        assert json.dumps(to_json(rule))


def test_certain_before_likely_and_causes_before_consequences() -> None:
    scene = Scene(down=("kai-scheduler-default",)).add(queue("default-queue", gpu={"limit": 0}))
    scene.add(pod("big", node="worker-1", ready=True, gpus=2), node("worker-2", gpus=0))
    scene.pending(queue="default-queue", gpus=1)
    explanation = scene.explain()
    assert ids(explanation) == ["kai.scheduler-down", "queue.limit-zero", "nodes.gpus-taken"]
    assert [finding.certainty for finding in explanation.findings] == [
        Certainty.CERTAIN,
        Certainty.CERTAIN,
        Certainty.LIKELY,
    ]


def test_what_only_repeats_is_left_out_beside_a_reason() -> None:
    scene = Scene()
    scene.pending(gpus=3, says=NONE)
    assert ids(scene.explain()) == ["nodes.gpus"]


def test_every_finding_names_its_rule_and_a_next_action() -> None:
    scene = Scene()
    scene.pending(gpus=3, says=NONE)
    (finding,) = scene.explain().findings
    assert finding.rule == "nodes.gpus"
    assert finding.next
    assert finding.side == ""
    assert to_json(finding)["evidence"] == list(finding.evidence)


def test_facts_and_summary() -> None:
    scene = Scene()
    scene.pending(gpus=3, says=NONE, ago=125)
    explanation = scene.explain()
    assert explanation.summary == "Pending for 2 min 05 s, no node yet"
    assert explanation.facts == {
        "asks for": "3 whole GPUs, 100m cpu, 128 MiB memory",
        "scheduler": "kai-scheduler",
        "queue": "default → test",
        "PodGroup": "pg-p",
        "KAI": "0.16.8",
    }
    assert json.loads(json.dumps(to_json(explanation)))["settled"] is True


def test_a_cluster_of_which_nothing_can_be_read_raises_no_alarm() -> None:
    scene = Scene()
    scene.pending()
    scene.absent |= set(scene.objects) - {"Pod"}
    explanation = scene.explain()
    assert ids(explanation) == []
    assert explanation.unread == ("Event", "Node")


def test_rules_stand_any_missing_kind() -> None:
    scene = Scene()
    scene.pending(fraction=0.5, says=NONE)
    scene.pending(pod("bound", node="worker-1", waiting="ImagePullBackOff"))
    for kind in list(scene.objects):
        if kind == "Pod":
            continue
        scene.absent = {kind}
        for name in ("p", "bound"):
            assert scene.explain(name).name == name


def test_objects_with_nothing_in_them_break_no_rule() -> None:
    scene = Scene()
    scene.objects = {kind: [] for kind in scene.objects}
    bare = {"kind": "Pod", "metadata": {"name": "p", "namespace": SPACE}}
    scene.add(
        bare, *({"kind": kind, "metadata": {"name": "x"}} for kind in ("Node", "Queue", "PodGroup", "Deployment"))
    )
    assert scene.explain().stage == "unbound"


def test_near_names() -> None:
    scene = Scene()
    scene.pending(pod("trainer-0"))
    scene.add(pod("web", "other"))
    with pytest.raises(NoSuchPod) as caught:
        scene.explain("trainer0")
    assert caught.value.evidence == ("team/trainer-0",)
    assert caught.value.fix == "use a name such as team/trainer-0"
    with pytest.raises(NoSuchPod) as caught:
        scene.explain("web")
    assert caught.value.fix == "name the namespace: other/web"
    with pytest.raises(NoSuchPod) as caught:
        scene.explain("zzz", "nowhere")
    assert caught.value.fix == "check name and namespace; namespaces with pods: other, team"
    with pytest.raises(NoSuchPod, match="no tenant 'red'"):
        LabSnapshot(scene.world).cases("p", SPACE, "red")


def owned(name: str, kind: str, owner: str, **more: object) -> dict[str, object]:
    """A pod of a controller."""
    return pod(name, meta={"ownerReferences": [{"kind": kind, "name": owner, "controller": True}]}, **more)


def test_a_workload_that_has_its_pods_means_the_one_that_is_worst_off() -> None:
    scene = Scene()
    scene.add({**deployment("web", SPACE, "x", want=2), "metadata": meta("web", SPACE)})
    made = {**deployment("web-1", SPACE, "x", want=2), "kind": "ReplicaSet"}
    owner = {"kind": "Deployment", "name": "web", "controller": True}
    scene.add({**made, "metadata": meta("web-1", SPACE, ownerReferences=[owner])})
    scene.add(owned("web-1-a", "ReplicaSet", "web-1", node="worker-1", ready=True))
    scene.pending(owned("web-1-b", "ReplicaSet", "web-1", queue="nowhere"))
    explanation = scene.explain("web")
    assert (explanation.kind, explanation.name, ids(explanation)) == ("Pod", "web-1-b", ["queue.unknown"])


def test_a_deployment_whose_pods_are_refused() -> None:
    scene = Scene()
    bare = deployment("web", SPACE, "x", want=2, have=0)
    scene.add({**bare, "metadata": meta("web", SPACE), "status": {"replicas": 0}})
    owner = {"kind": "Deployment", "name": "web", "controller": True}
    made = {**bare, "kind": "ReplicaSet", "metadata": meta("web-1", SPACE, ownerReferences=[owner])}
    made["status"] = {"replicas": 0}
    scene.add(made)
    says = 'admission webhook "v" denied the request: cannot request both GPU and GPU memory'
    scene.event(made, "FailedCreate", f"Error creating: {says}", by="replicaset-controller")
    explanation = scene.explain("web")
    assert (explanation.kind, explanation.summary) == ("Deployment", "0 of 2 pods exist")
    assert ids(explanation) == ["admission.fraction-and-whole"]


def test_short_text_for_a_failed_wait() -> None:
    scene = Scene(down=("kai-scheduler-default",))
    scene.pending(queue="nowhere")
    lines = explain_pod(scene.world, SPACE, "p")
    assert lines[0] == "Pod team/p: Pending for 30 s, no node yet"
    assert lines[1].startswith("why [kai.scheduler-down]: KAI's kai-scheduler-default does not run")
    assert any(line.startswith("  next: ") for line in lines)
    assert explain_pod(scene.world, SPACE, "nobody") == []
    scene.add(pod("well", node="worker-1", ready=True))
    assert explain_pod(scene.world, SPACE, "well") == []


def test_short_text_keeps_to_the_first_reasons() -> None:
    scene = Scene(down=("kai-scheduler-default",)).add(queue("default-queue", gpu={"limit": 0}))
    scene.add(pod("big", node="worker-1", ready=True, gpus=2), node("worker-2", gpus=0))
    scene.pending(queue="default-queue", gpus=1)
    lines = scene.explain().lines(most=1)
    assert lines[-1] == "… and 2 more reasons: kailab explain team/p"
    assert not any("nodes.gpus-taken" in line for line in lines)


def test_commands_name_the_cluster_they_are_for() -> None:
    scene = Scene(down=("binder",))
    scene.pending()
    scene.add(request())
    explanation = explained(LabSnapshot(scene.world, command=("kubectl", "--kubeconfig", "/a b/c")), "p", SPACE)
    assert explanation.findings[0].next.startswith("kubectl --kubeconfig '/a b/c' get deployment,pods")


@pytest.mark.parametrize("version", ["0.7.11", "0.9.3", "0.9.8", "0.12.23", "0.14.7", "0.16.8", "0.17.0"])
def test_kai_is_known_in_every_version(version: str) -> None:
    kai = installation(Scene(version).world)
    assert kai is not None
    assert (kai.version, kai.namespace) == (version, "kai-scheduler")
    assert all(component.up for component in kai.components.values())


def test_kai_by_another_registry_and_without_a_tag() -> None:
    scene = Scene()
    for obj in scene.objects["Deployment"]:
        obj["spec"]["template"]["spec"]["containers"][0]["image"] = "mirror.example.com/x@sha256:00"
    kai = installation(scene.world)
    assert kai is not None
    assert kai.version == ""
    assert kai.line.has_operator


def test_a_deployment_of_one_of_its_names_is_not_kai() -> None:
    scene = Scene("").add(deployment("scheduler", "other", "other/scheduler:v1.2.3"))
    assert installation(scene.world) is None


def test_options_of_components() -> None:
    scene = Scene()
    args = ("--queue-label-key", "team/queue", "--nodepool-label-key=pool", "--leader-elect")
    scene.add(deployment("pod-grouper", "kai-scheduler", "r/podgrouper:v0.16.8", args=args))
    kai = installation(scene.world)
    assert kai is not None
    grouper = kai.components["podgrouper"]
    assert [grouper.option(name) for name in ("queue-label-key", "nodepool-label-key", "leader-elect", "no")] == [
        "team/queue",
        "pool",
        "true",
        None,
    ]
    assert kai.queue_key == "team/queue"


def test_picture_of_a_cluster_that_is_well() -> None:
    scene = Scene().add(
        reservation(), pod(node="worker-1", ready=True, fraction=0.5, labels={"runai-gpu-group": GROUP})
    )
    scene.add(group("pg-p"))
    seen = overview_of(LabSnapshot(scene.world))
    assert seen.well
    (side,) = seen.sides
    assert side.pods == {"running": 2}
    assert [line.split(":")[0] for line in side.queues] == ["queue default", "queue test"]
    assert json.loads(json.dumps(to_json(seen)))["sides"][0]["nodes"][1]["gpusFree"] == 1


def test_picture_names_what_is_not_well() -> None:
    scene = Scene(down=("binder",)).add(node("worker-2", gpus=1, capacity=2, ready="False"))
    scene.pending(gpus=3, says=NONE)
    scene.add({"kind": "Job", "metadata": meta("stuck", SPACE), "spec": {}})
    seen = overview_of(LabSnapshot(scene.world))
    (side,) = seen.sides
    assert not seen.well
    assert {one.name for one in side.unwell} == {"p", "stuck"}
    assert side.troubles == (
        "Deployment kai-scheduler/binder: 0 of 1 available",
        "node worker-2 is not Ready",
        "node worker-2: 1 of 2 GPUs allocatable",
    )


def test_picture_tells_a_tenants_pod_once() -> None:
    from tests.support.explain_world import synced

    tenant = Scene("")
    inside = pod(group=None)
    tenant.add(inside)
    host = Scene().add(synced("p-x", inside, "blue", queue="nowhere", group=None, ago=1))
    seen = overview_of(LabSnapshot(host.world, (TenantSnapshot("blue", tenant.world, own_scheduler=False),)))
    assert [(side.side, [one.name for one in side.unwell]) for side in seen.sides] == [
        ("host", []),
        ("tenant blue", ["p"]),
    ]
