"""Pods that no node takes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.explain_world import GROUP, MEMORY, SPACE, Scene, deployment, ids, node, pod, request, reservation

NONE = "no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs."
AFFINITY = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
            }
        }
    }
}


@pytest.mark.parametrize(
    ("rule", "asks"),
    [
        ("nodes.selector", {"spec": {"nodeSelector": {"disk": "ssd"}}}),
        ("nodes.selector", {"spec": AFFINITY}),
        ("nodes.gpus", {"gpus": 3}),
        ("nodes.cpu", {"cpu": "100"}),
        ("nodes.memory", {"ram": "1Ti"}),
        ("shared.devices", {"fraction": 0.5, "annotations": {"gpu-fraction-num-devices": "3"}}),
        ("shared.memory-too-big", {"memory": 2 * MEMORY}),
    ],
)
@pytest.mark.parametrize("says", [NONE, ""], ids=["told", "silent"])
def test_what_no_node_has(rule: str, asks: dict[str, Any], says: str) -> None:
    scene = Scene()
    scene.pending(says=says, **asks)
    explanation = scene.explain()
    assert ids(explanation) == [rule]
    assert explanation.findings[0].certainty == ("certain" if says else "likely")
    assert any(line.startswith("node worker-1: ") for line in explanation.findings[0].evidence)


def test_a_resource_that_no_node_has() -> None:
    scene = Scene()
    made = scene.pending(says=NONE)
    made["spec"]["containers"][0]["resources"]["requests"]["example.com/fpga"] = "1"
    assert ids(scene.explain()) == ["nodes.resource"]


def test_a_resource_that_others_have() -> None:
    scene = Scene()
    for name in ("worker-1", "worker-2"):
        other = node(name)
        other["status"]["allocatable"]["example.com/fpga"] = "1"
        scene.add(other)
        user = pod(f"user-{name}", node=name, ready=True)
        user["spec"]["containers"][0]["resources"]["requests"]["example.com/fpga"] = "1"
        scene.add(user)
    made = scene.pending(says=NONE)
    made["spec"]["containers"][0]["resources"]["requests"]["example.com/fpga"] = "1"
    assert ids(scene.explain()) == ["nodes.resource-taken"]


def test_taints_are_blamed_and_not_the_cpu_node() -> None:
    scene = Scene()
    scene.add(node("worker-1", taints=("team=a:NoSchedule",)), node("worker-2", gpus=0))
    scene.pending(gpus=1, says=NONE)
    explanation = scene.explain()
    assert ids(explanation) == ["nodes.taint"]
    assert "node worker-1: taint team=a:NoSchedule" in explanation.findings[0].evidence


def test_a_toleration_lets_it_in() -> None:
    scene = Scene()
    scene.add(node("worker-1", taints=("team=a:NoSchedule",)), node("worker-2", gpus=0))
    toleration = {"key": "team", "operator": "Exists"}
    scene.pending(gpus=1, says=NONE, spec={"tolerations": [toleration]})
    assert ids(scene.explain()) == ["told.unschedulable"]


def test_cordoned_node_beside_a_full_one() -> None:
    scene = Scene()
    scene.add(node("worker-1", cordoned=True, taints=("node.kubernetes.io/unschedulable:NoSchedule",)))
    scene.add(pod("big", node="worker-2", ready=True, gpus=2))
    scene.pending(gpus=1, says=NONE)
    explanation = scene.explain()
    assert ids(explanation) == ["nodes.cordoned", "nodes.gpus-taken"]
    assert explanation.findings[0].next == "kubectl uncordon worker-1"
    assert "worker-2: 2 GPUs held by team/big" in explanation.findings[1].evidence


def test_node_that_is_not_ready() -> None:
    scene = Scene()
    scene.add(
        node("worker-1", ready="False", taints=("node.kubernetes.io/not-ready:NoSchedule",)), node("worker-2", gpus=0)
    )
    scene.pending(gpus=1, says=NONE)
    assert ids(scene.explain()) == ["nodes.not-ready"]


def test_node_under_pressure() -> None:
    scene = Scene()
    bad = {"type": "DiskPressure", "status": "True", "reason": "r", "message": "m"}
    scene.add(node("worker-1", conditions=[bad]), node("worker-2", gpus=0))
    scene.pending(gpus=1, says=NONE)
    assert "node worker-1: DiskPressure" in scene.explain().findings[0].evidence


@pytest.mark.parametrize(("rule", "held"), [("nodes.cpu-taken", {"cpu": "7"}), ("nodes.memory-taken", {"ram": "15Gi"})])
def test_what_others_hold(rule: str, held: dict[str, str]) -> None:
    scene = Scene()
    scene.add(*(pod(f"on-{name}", node=name, ready=True, **held) for name in ("worker-1", "worker-2")))
    scene.pending(says=NONE, cpu="2", ram="2Gi")
    assert ids(scene.explain()) == [rule]


def test_ended_pods_hold_nothing() -> None:
    scene = Scene()
    scene.add(*(pod(f"on-{name}", node=name, phase="Succeeded", gpus=2) for name in ("worker-1", "worker-2")))
    scene.pending(gpus=1, says=NONE)
    assert ids(scene.explain()) == ["told.unschedulable"]


def test_no_room_on_shared_gpus() -> None:
    scene = Scene()
    shares = {"runai-gpu-group": GROUP}
    scene.add(pod("half", node="worker-1", ready=True, fraction=0.7, labels=shares), reservation())
    scene.add(pod("whole", node="worker-1", ready=True, gpus=1), node("worker-2", gpus=0))
    scene.pending(fraction=0.5, says=NONE)
    explanation = scene.explain()
    assert ids(explanation) == ["shared.no-room"]
    assert any("0.3 left: team/half" in line for line in explanation.findings[0].evidence)
    scene.pending(pod("small", fraction=0.3), says=NONE)
    assert ids(scene.explain("small")) == ["told.unschedulable"]


def test_gpus_that_the_binder_is_about_to_give_are_taken() -> None:
    scene = Scene().add(node("worker-2", gpus=0))
    scene.pending(pod("first", fraction=0.9))
    scene.add(request("first", selectedGPUGroups=["g"]), pod("whole", node="worker-1", ready=True, gpus=1))
    scene.pending(fraction=0.5, says=NONE)
    assert ids(scene.explain()) == ["shared.no-room"]


def test_gpu_memory_without_the_label() -> None:
    scene = Scene()
    for name in ("worker-1", "worker-2"):
        bare = node(name)
        del bare["metadata"]["labels"]["nvidia.com/gpu.memory"]
        scene.add(bare)
    says = "2 node is not a gpu node or the gpu memory count on the node was not synced yet"
    scene.pending(memory=2000, says=says)
    assert ids(scene.explain()) == ["shared.memory-label"]


def test_cluster_without_gpus_blames_the_device_plugin() -> None:
    scene = Scene()
    scene.add(node("worker-1", gpus=0, capacity=2), node("worker-2", gpus=0))
    scene.add(pod("nvidia-device-plugin-x", "kube-system", scheduler="", node="worker-1", waiting="CrashLoopBackOff"))
    scene.pending(gpus=1, says="The pod team/p requires GPU: 1. No node in the default node-pool has GPU resources")
    explanation = scene.explain()
    assert ids(explanation)[0] == "nodes.no-gpus"
    assert "pod kube-system/nvidia-device-plugin-x: Pending, not ready" in explanation.findings[0].evidence


@pytest.mark.parametrize(
    ("gpus", "order"), [(2, ["nodes.gpus-unhealthy", "nodes.gpus"]), (3, ["nodes.gpus", "nodes.gpus-unhealthy"])]
)
def test_unhealthy_gpus_are_the_cause_where_the_node_had_enough_with_them(gpus: int, order: list[str]) -> None:
    scene = Scene()
    scene.add(node("worker-1", gpus=1, capacity=2), node("worker-2", gpus=0))
    scene.pending(gpus=gpus, says=NONE)
    explanation = scene.explain()
    assert ids(explanation) == order
    (count,) = (one for one in explanation.findings if one.rule == "nodes.gpus")
    assert "has 1 GPU, 1 unhealthy" in count.evidence[1]


def test_nodes_of_another_pool() -> None:
    scene = Scene()
    labels = {"kai.scheduler/node-pool": "blue"}
    scene.add(node("worker-1", labels=labels), node("worker-2", labels=labels))
    scene.pending(gpus=1, says=NONE)
    assert ids(scene.explain()) == ["nodes.pool"]


def test_a_second_shard_serves_its_pool() -> None:
    scene = Scene()
    labels = {"kai.scheduler/node-pool": "blue"}
    scene.add(node("worker-1", labels=labels), node("worker-2", labels=labels))
    args = ("--partition-label-value=blue", "--nodepool-label-key=kai.scheduler/node-pool")
    scene.add(deployment("kai-scheduler-blue", "kai-scheduler", "registry.kailab.dev/scheduler:v0.16.8", args=args))
    scene.pending(gpus=1, says=NONE)
    assert "nodes.pool" not in ids(scene.explain())


@pytest.mark.parametrize(("gpus", "label"), [(1, "gpu-worker"), (0, "cpu-worker")])
def test_scheduler_that_restricts_pods_to_labelled_workers(gpus: int, label: str) -> None:
    scene = Scene()
    image = "registry.kailab.dev/scheduler:v0.16.8"
    args = ("--restrict-node-scheduling=true",)
    scene.add(deployment("kai-scheduler-default", "kai-scheduler", image, args=args))
    scene.pending(gpus=gpus, says="MaxNodePoolResources: No node in the default node-pool has GPU resources.")
    assert ids(scene.explain()) == ["nodes.restricted"]
    scene.add(node("worker-1", labels={f"node-role.kubernetes.io/{label}": ""}))
    assert ids(scene.explain()) == ["told.unschedulable"]


def test_node_with_gpus_by_dra_is_one_that_the_selector_does_not_exclude() -> None:
    scene = Scene().add(node("worker-1", gpus=0, labels={"zone": "a"}))
    says = (
        "no nodes with enough resources were found: 1 device-plugin GPU requests cannot be scheduled on DRA-only nodes."
    )
    scene.pending(gpus=1, says=says, spec={"nodeSelector": {"zone": "a"}})
    assert ids(scene.explain()) == ["nodes.dra", "nodes.selector"]


def test_every_node_has_several_obstacles() -> None:
    scene = Scene()
    scene.add(node("worker-1", cordoned=True), node("worker-2", ready="False"))
    scene.add(*(pod(f"on-{name}", node=name, ready=True, gpus=2) for name in ("worker-1", "worker-2")))
    scene.pending(gpus=1, says="something else: 2 node(s) no")
    explanation = scene.explain()
    assert "nodes.no-fit" in ids(explanation)
    (table,) = [finding for finding in explanation.findings if finding.rule == "nodes.no-fit"]
    assert "node worker-1: cordoned; 0 of 2 GPUs free, the pod wants 1" in table.evidence


def test_nodes_are_no_reason_while_the_scheduler_speaks_of_the_queue() -> None:
    scene = Scene()
    scene.pending(gpus=3, queue="default", says="Unable to schedule pod")
    assert ids(scene.explain()) == ["queue.not-leaf"]


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ["a", "b"], True),
        ("NotIn", ["a"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["0"], False),
    ],
)
def test_node_affinity_operators(operator: str, values: list[str], fits: bool) -> None:
    scene = Scene().add(node("worker-1", labels={"zone": "a"}), node("worker-2", gpus=0))
    term = {"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    scene.pending(gpus=1, says=NONE, spec={"affinity": {"nodeAffinity": rule}})
    assert ids(scene.explain()) == (["told.unschedulable"] if fits else ["nodes.selector"])


@pytest.mark.parametrize(("number", "fits"), [("4", True), ("2", False)])
def test_node_affinity_by_number_and_by_name(number: str, fits: bool) -> None:
    scene = Scene().add(node("worker-1", labels={"cores": number}), node("worker-2", gpus=0))
    term = {
        "matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["3"]}],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["worker-1"]}],
    }
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    scene.pending(gpus=1, says=NONE, spec={"affinity": {"nodeAffinity": rule}})
    assert ids(scene.explain()) == (["told.unschedulable"] if fits else ["nodes.selector"])


def test_claim_without_a_class() -> None:
    scene = Scene()
    scene.objects["StorageClass"] = []
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": SPACE, "uid": "c"}}
    scene.add({**claim, "spec": {}, "status": {"phase": "Pending"}})
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    scene.pending(spec={"volumes": volumes}, says="VolumeBinding: pod has unbound immediate PersistentVolumeClaims.")
    explanation = scene.explain()
    assert ids(explanation) == ["volumes.claim-unbound"]
    assert "names no StorageClass" in explanation.findings[0].what


@pytest.mark.parametrize(
    ("name", "why"), [("fast", "does not exist"), ("slow", "has created no volume"), ("", "without a class")]
)
def test_claim_with_a_class(name: str, why: str) -> None:
    scene = Scene().add({"kind": "StorageClass", "metadata": {"name": "slow"}, "provisioner": "x"})
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": SPACE, "uid": "c"}}
    claim |= {"spec": {"storageClassName": name}, "status": {"phase": "Pending"}}
    scene.add(claim).event(claim, "ProvisioningFailed", "no disk left", by="x")
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    scene.pending(spec={"volumes": volumes}, says="VolumeBinding: pod has unbound immediate PersistentVolumeClaims.")
    explanation = scene.explain()
    assert why in explanation.findings[0].what
    assert any("no disk left" in line for line in explanation.findings[0].evidence)


def test_claim_that_waits_for_its_pod_is_no_reason() -> None:
    scene = Scene()
    scene.add({"kind": "StorageClass", "metadata": {"name": "lazy"}, "volumeBindingMode": "WaitForFirstConsumer"})
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": SPACE, "uid": "c"}}
    scene.add({**claim, "spec": {"storageClassName": "lazy"}, "status": {"phase": "Pending"}})
    scene.pending(spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}, ago=1)
    assert ids(scene.explain()) == []


def test_only_the_control_plane_is_left() -> None:
    scene = Scene().remove("Node", "worker-1").remove("Node", "worker-2")
    scene.pending(
        says="0/1 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }."
    )
    assert ids(scene.explain()) == ["nodes.control-plane"]


def test_a_pod_that_chose_the_control_plane_is_kept_off_by_its_taint() -> None:
    scene = Scene()
    scene.pending(spec={"nodeSelector": {"kubernetes.io/hostname": "control-plane"}}, says="3 node(s) no")
    assert ids(scene.explain()) == ["nodes.control-plane"]


def test_a_large_node_that_is_cordoned_is_blamed_and_not_the_small_one() -> None:
    scene = Scene().add(node("worker-1", cordoned=True), node("worker-2", gpus=1))
    scene.pending(gpus=2, says=NONE)
    assert ids(scene.explain()) == ["nodes.cordoned"]
