"""PodGroups, gangs, and KAI's components."""

from __future__ import annotations

import pytest

from tests.support.explain_world import SPACE, Scene, deployment, group, ids, meta, node, pod, queue, request

UNABLE = "Unable to schedule pod"


def test_pod_grouper_down() -> None:
    scene = Scene(down=("pod-grouper",))
    scene.add(pod(group=None, ago=2))
    explanation = scene.explain()
    assert ids(explanation) == ["kai.pod-grouper-down"]
    assert explanation.findings[0].evidence[0] == "Deployment kai-scheduler/pod-grouper: 0 of 1 available"


def test_a_component_scaled_to_zero_is_scaled_up_again() -> None:
    scene = Scene()
    scene.add(deployment("pod-grouper", "kai-scheduler", "r/podgrouper:v0.16.8", want=0, have=0))
    scene.add(pod(group=None))
    assert scene.explain().findings[0].next == "kubectl scale deployment pod-grouper -n kai-scheduler --replicas=1"


def test_pod_grouper_down_is_no_reason_for_a_pod_with_a_group() -> None:
    scene = Scene(down=("pod-grouper",))
    scene.pending(says=UNABLE)
    assert "kai.pod-grouper-down" not in ids(scene.explain())


def test_scheduler_down() -> None:
    scene = Scene(down=("kai-scheduler-default",))
    crashing = pod(
        "kai-scheduler-default-x",
        "kai-scheduler",
        group=None,
        scheduler="",
        queue=None,
        node="worker-1",
        waiting="CrashLoopBackOff",
        labels={"app": "kai-scheduler-default"},
    )
    scene.add(crashing)
    scene.logs = {"kai-scheduler-default": ("fine", "panic: no leader")}
    scene.pending()
    explanation = scene.explain()
    assert ids(explanation)[0] == "kai.scheduler-down"
    assert any("CrashLoopBackOff" in line for line in explanation.findings[0].evidence)
    assert "panic: no leader" in explanation.findings[0].evidence


def test_a_deployment_that_the_operator_has_not_made() -> None:
    scene = Scene(down=("kai-operator",)).remove("Deployment", "kai-scheduler-default")
    scene.pending()
    explanation = scene.explain()
    assert ids(explanation)[0] == "kai.scheduler-down"
    assert explanation.findings[0].evidence == (
        "Deployment kai-scheduler/kai-scheduler-default does not exist",
        "Deployment kai-scheduler/kai-operator: 0 of 1 available",
    )


def test_binder_down() -> None:
    scene = Scene(down=("binder",))
    scene.pending()
    scene.add(request())
    explanation = scene.explain()
    assert ids(explanation) == ["kai.binder-down"]
    assert "chose node worker-1" in explanation.findings[0].what


@pytest.mark.parametrize(
    ("version", "name", "whom"), [("0.16.8", "admission", "KAI's pods"), ("0.7.11", "binder", "all pods")]
)
def test_admission_down(version: str, name: str, whom: str) -> None:
    scene = Scene(version, down=(name,))
    job = {"kind": "Job", "metadata": meta("p", SPACE), "spec": {}}
    says = 'Error creating: failed calling webhook "mpod.kai": failed to call webhook: connection refused'
    scene.add(job).event(job, "FailedCreate", says, by="job-controller")
    explanation = scene.explain()
    assert ids(explanation) == ["kai.admission-down", "admission.webhook-unreachable"]
    assert whom in explanation.findings[0].what


@pytest.mark.parametrize("down", [(), ("kai-scheduler-default",)])
def test_missing_shard_is_the_cause_of_a_missing_scheduler(down: tuple[str, ...]) -> None:
    scene = Scene(down=down).remove("SchedulingShard", "default")
    scene.pending()
    assert ids(scene.explain())[0] == "kai.no-shard"


def test_lost_node_is_the_cause_of_a_scheduler_that_ran_there() -> None:
    scene = Scene(down=("kai-scheduler-default",)).add(node("worker-1", ready="False"), node("worker-2", ready="False"))
    labels = {"app": "kai-scheduler-default"}
    scene.add(pod("s", "kai-scheduler", group=None, scheduler="", queue=None, node="worker-1", labels=labels))
    scene.pending(says="no nodes with enough resources were found: 2 node has NotReady condition.")
    assert ids(scene.explain()) == ["nodes.not-ready", "kai.scheduler-down"]


def test_missing_crd() -> None:
    scene = Scene("0.7.11").remove("CustomResourceDefinition", "bindrequests.scheduling.run.ai")
    scene.pending()
    explanation = scene.explain()
    assert ids(explanation) == ["kai.crd-missing"]
    assert "bindrequests.scheduling.run.ai" in explanation.findings[0].what


def test_a_scheduler_that_says_nothing() -> None:
    scene = Scene()
    scene.logs = {"kai-scheduler-default": ("I all well", "E Error listing resource slices")}
    scene.pending(ago=120)
    explanation = scene.explain()
    assert ids(explanation) == ["kai.silent"]
    assert explanation.findings[0].evidence == ("E Error listing resource slices",)
    scene.pending(pod("young", ago=20))
    assert ids(scene.explain("young")) == []


def test_kube_scheduler_down() -> None:
    scene = Scene()
    scene.add(
        pod(
            "kube-scheduler-cp",
            "kube-system",
            group=None,
            scheduler="",
            queue=None,
            node="control-plane",
            waiting="CrashLoopBackOff",
            labels={"component": "kube-scheduler"},
        )
    )
    scene.add(pod(group=None, queue=None, scheduler="default-scheduler"))
    assert ids(scene.explain()) == ["kai.kube-scheduler-down"]


def test_namespace_left_out() -> None:
    scene = Scene()
    args = ("--scheduler-name", "kai-scheduler", "--namespace-label-selector", "kai=on")
    scene.add(deployment("pod-grouper", "kai-scheduler", "r/podgrouper:v0.16.8", args=args), pod(group=None))
    explanation = scene.explain()
    assert ids(explanation)[0] == "group.namespace-left-out"
    assert explanation.findings[0].next == "kubectl label namespace team kai=on"
    scene.add({"kind": "Namespace", "metadata": meta(SPACE, labels={"kai": "on"})})
    assert "group.namespace-left-out" not in ids(scene.explain())


def test_skip_annotation_without_a_group() -> None:
    scene = Scene().add(pod(group=None, annotations={"kai.scheduler/skip-podgrouper": "true"}))
    assert ids(scene.explain()) == ["group.skipped"]


def test_warning_of_the_pod_grouper() -> None:
    scene = Scene()
    made = pod(group=None)
    scene.add(made).event(
        made, "PodGrouperWarning", "found Ray <x in namespace team> with multiple owners", by="pod-grouper"
    )
    explanation = scene.explain()
    assert ids(explanation)[0] == "group.warned"
    assert "multiple owners" in explanation.findings[0].what


@pytest.mark.parametrize(
    ("says", "action"),
    [
        (
            'podgroups is forbidden: User "u" cannot create resource "podgroups" in API group "g"',
            "grant it this permission",
        ),
        ('no matches for kind "PodGroup" in version "scheduling.run.ai/v2alpha2"', "install KAI's CRDs"),
        ('Operation cannot be fulfilled on podgroups "pg-p": the object has been modified; please', "wait, it retries"),
        ("found ReplicaSet with multiple owners", "fix the cause in the message"),
    ],
)
def test_the_next_action_fits_the_warning(says: str, action: str) -> None:
    scene = Scene()
    made = pod(group=None, ago=2)
    scene.add(made).event(made, "PodGrouperWarning", says, by="pod-grouper")
    assert scene.explain().findings[0].next.startswith(action)


def test_the_usual_noise_of_the_pod_grouper_is_no_warning() -> None:
    scene = Scene()
    made = pod(group=None, ago=2)
    scene.add(made).event(made, "PodGrouperWarning", 'Pod "p" not found', by="pod-grouper")
    assert ids(scene.explain()) == []


def test_no_group_yet() -> None:
    scene = Scene().add(pod(group=None, ago=40))
    scene.logs = {"pod-grouper": ("failed for other", "failed for p: conflict")}
    explanation = scene.explain()
    assert ids(explanation) == ["group.none"]
    assert explanation.findings[0].evidence == ("failed for other", "failed for p: conflict")[1:]


def test_group_that_does_not_exist() -> None:
    scene = Scene().add(pod(group="mine"))
    assert ids(scene.explain()) == ["group.missing"]


def test_group_of_another_pool() -> None:
    scene = Scene()
    scene.add(group("pg-p", labels={"kai.scheduler/node-pool": "blue"}))
    scene.pending()
    explanation = scene.explain()
    assert ids(explanation)[0] == "group.node-pool"
    assert explanation.findings[0].evidence == ("pools that are served: (without the label)",)


def test_group_that_is_not_tried_again() -> None:
    scene = Scene().add(group("pg-p", schedulingBackoff=1, refusals={"Unschedulable": UNABLE}))
    scene.pending(says=UNABLE)
    assert "group.gives-up" in ids(scene.explain())
    scene.add(group("pg-p", schedulingBackoff=-1, refusals={"Unschedulable": UNABLE}))
    assert "group.gives-up" not in ids(scene.explain())


def test_label_changed_after_the_group_was_made() -> None:
    scene = Scene().add(queue("other", "default"), group("pg-p", queue="gone"))
    scene.pending(queue="other", says="Queue 'gone' does not exist.")
    explanation = scene.explain()
    assert ids(explanation) == ["queue.unknown", "group.queue-differs"]


def test_gang_with_too_few_pods() -> None:
    scene = Scene()
    scene.add(group("g", minMember=3), pod("p", group="g"), pod("q", group="g"))
    scene.event(
        scene.objects["PodGroup"][0],
        "NotReady",
        "Job is not ready for scheduling. Waiting for 3 pods, currently 2 exist",
    )
    explanation = scene.explain()
    assert ids(explanation) == ["gang.too-few"]
    assert explanation.findings[0].evidence[0] == "PodGroup g: minMember 3, 2 pods exist"


def test_gang_with_gated_pods() -> None:
    scene = Scene()
    gates = {"schedulingGates": [{"name": "wait.example.com"}]}
    scene.add(group("g", minMember=2), pod("p", group="g"), pod("q", group="g", spec=gates))
    assert ids(scene.explain()) == ["gang.gated"]
    assert ids(scene.explain("q")) == ["spec.gates"]


@pytest.mark.parametrize("side", ["requiredTopologyLevel", "preferredTopologyLevel"])
def test_level_that_the_topology_lacks(side: str) -> None:
    scene = Scene()
    constraint = {"topology": "racks", side: "shelf"}
    scene.add({"kind": "Topology", "metadata": meta("racks"), "spec": {"levels": [{"nodeLabel": "rack"}]}})
    scene.add(group("g", topologyConstraint=constraint), pod("p", group="g"))
    explanation = scene.explain()
    assert ids(explanation) == ["gang.topology-level"]
    assert explanation.findings[0].next == "name one of its levels: rack"
    constraint[side] = "rack"
    assert "gang.topology-level" not in ids(scene.explain())
