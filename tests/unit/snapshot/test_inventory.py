"""The inventory of a cluster: what is found, what others may not read, and who owns it."""

from __future__ import annotations

from typing import Any

import pytest

from lab.errors import ApiFailed
from lab.objects.kai import QueueShare
from lab.snapshot.inventory import Inventory, inventory, queue_tree
from tests.support.access_reviews import permit
from tests.support.api_requests import Call
from tests.support.builders import metadata, node, queue, release_secret
from tests.support.existing_cluster import existing_cluster
from tests.support.fake_api_server import FakeApiServer


@pytest.fixture
def world() -> FakeApiServer:
    return existing_cluster()


@pytest.fixture
def found(world: FakeApiServer) -> Inventory:
    return inventory(world.cluster)


def test_the_cluster_and_its_user(found: Inventory) -> None:
    assert (found.version, found.context, found.server) == ("v1.34.4", "kind-kailab-demo", "https://127.0.0.1:6443")
    assert (found.uid, found.user, found.production) == ("uid-kube-system", "jane", False)
    assert found.pod_networks == ("kindnet",)
    assert [one.name for one in found.storage_classes if one.default] == ["standard"]
    assert [(one.name, one.handler) for one in found.runtime_classes] == [("nvidia", "nvidia")]
    assert not found.forbidden


def test_gpus_are_counted_as_what_they_are(found: Inventory) -> None:
    assert found.gpus == {"nvidia.com/gpu": 8, "nvidia.com/gpu.shared": 4, "nvidia.com/mig-1g.5gb": 7}
    whole = next(one for one in found.nodes if one.name == "gpu-1")
    assert (whole.gpu_product, whole.gpu_memory, whole.gpu_count) == ("NVIDIA-H100", 81559, 8)
    assert (whole.roles, whole.taints) == (("worker",), ("nvidia.com/gpu=present:NoSchedule",))
    assert (whole.kubelet, whole.runtime, whole.kernel) == ("v1.34.4", "containerd://2.1.4", "6.8.0")


def test_gpus_of_a_node_that_is_gone_or_cordoned_do_not_count(world: FakeApiServer) -> None:
    world.add(node("gpu-1", gpus=8, ready=False), node("mig-1", gpus=8, spec={"unschedulable": True}))
    assert inventory(world.cluster).gpus == {"nvidia.com/gpu.shared": 4}


def test_kai_and_who_installed_it(found: Inventory) -> None:
    kai = found.kai
    assert kai is not None
    assert (kai.version, kai.line, kai.namespace, kai.lab) == ("0.16.8", "0.16", "kai-scheduler", "")
    assert kai.owner == "belongs to Helm release kai-scheduler/kai"
    assert kai.release is not None
    assert (kai.release.version, kai.release.status, kai.release.revision) == ("v0.16.8", "deployed", 2)
    assert (kai.gpu_sharing, kai.config) == (True, "kai-config")
    assert [(shard.name, shard.pool) for shard in kai.shards] == [("default", "")]
    assert not kai.down


def test_kai_of_a_lab_and_its_defects(world: FakeApiServer) -> None:
    world.add({"kind": "Namespace", "metadata": metadata("kai-scheduler", labels={"kailab": "other"})})
    world.change("Config", "kai-config", spec={"admission": {"gpuSharing": False}})
    world.change("Deployment", "binder", "kai-scheduler", status={"availableReplicas": 0})
    found = inventory(world.cluster)
    assert found.kai is not None
    assert (found.kai.lab, found.kai.owner, found.kai.gpu_sharing) == ("other", "belongs to lab other", False)
    assert found.kai.down == ("Deployment kai-scheduler/binder: 0 of 1 available",)
    assert found.labs == ("other", "x")


def test_gpu_operator_and_device_plugin(found: Inventory) -> None:
    operator = found.gpu_operator
    assert operator is not None
    assert (operator.namespace, operator.version, operator.policy, operator.state) == (
        "gpu-operator",
        "v25.3.0",
        "cluster-policy",
        "ready",
    )
    assert [(one.namespace, one.name, one.version) for one in found.device_plugins] == [
        ("gpu-operator", "nvidia-device-plugin-daemonset", "v0.17.1")
    ]


def test_vclusters_by_their_control_planes(found: Inventory) -> None:
    assert [(one.namespace, one.name, one.version, one.lab) for one in found.vclusters] == [("vc-a", "a", "0.36.1", "")]


def test_queues_are_a_tree_with_owners(found: Inventory) -> None:
    assert found.queue_names == ("org", "team-a", "team-b")
    assert [one.name for one in found.queues] == ["org"]
    assert found.queues[0].owner.startswith("was created by kubectl")
    assert [(one.name, one.gpu) for one in found.queues[0].children] == [
        ("team-a", QueueShare(2, 4, 1)),
        ("team-b", QueueShare()),
    ]


def test_orphans_and_circles_of_queues_are_shown() -> None:
    tree = queue_tree([queue("a", "gone"), queue("b", "c"), queue("c", "b")])
    assert [(one.name, [child.name for child in one.children]) for one in tree] == [("a", []), ("b", ["c"])]


def test_pods_of_others_by_namespace(found: Inventory) -> None:
    assert found.foreign == {"shop": 2, "vc-a": 1}
    assert found.foreign_pods == 3


@pytest.mark.parametrize(("value", "marked"), [("true", True), ("yes", True), ("false", False)])
def test_production_marker(world: FakeApiServer, value: str, marked: bool) -> None:
    note = {"kailab.dev/production": value}
    world.change("Namespace", "kube-system", metadata={**metadata("kube-system"), "annotations": note})
    assert inventory(world.cluster).production is marked


def test_kinds_that_the_user_may_not_read_are_named(world: FakeApiServer) -> None:
    world.react("*", "*", lambda call: (403, "no") if call.verb == "list" and call.kind != "Pod" else None)
    world.react("get", "Node", lambda _: (403, "no"))
    found = inventory(world.cluster)
    assert {"Node", "Deployment", "Queue", "StorageClass", "Namespace"} <= set(found.forbidden)
    assert (found.nodes, found.kai, found.queues, found.uid, found.gpus) == ((), None, (), "", {})
    assert found.foreign["shop"] == 2


def test_secrets_and_kubelets_that_the_user_may_not_read(world: FakeApiServer) -> None:
    world.react("list", "Secret", lambda _: (403, "no"))
    world.react("get", "Node", lambda _: (403, "no"))
    found = inventory(world.cluster)
    assert found.forbidden == ("Secret", "Node (proxy)")
    assert found.kai is not None
    assert found.kai.release is None
    assert found.vclusters[0].version == "0.36.1"  # the chart's label
    assert {node.cgroup_version for node in found.nodes} == {""}


def test_a_cluster_without_kai_gpus_and_vclusters() -> None:
    api = FakeApiServer(node("a"))
    permit(api, lambda _: True)
    for kind in ("Queue", "Config", "SchedulingShard"):
        api.react("list", kind, lambda _: (404, "not found"))
    found = inventory(api.cluster)
    assert (found.kai, found.gpu_operator) == (None, None)
    assert (found.device_plugins, found.vclusters, found.gpus) == ((), (), {})
    absent = ("Queue", "Config", "SchedulingShard", "ClusterPolicy.nvidia.com")
    assert found.unreadable == dict.fromkeys(absent, "not served")
    assert not found.forbidden


def test_only_secrets_of_known_releases_are_read(world: FakeApiServer) -> None:
    inventory(world.cluster)
    asked = {(call.namespace, call.query["labelSelector"]) for call in world.calls_of("list", "Secret")}
    assert asked == {
        ("kai-scheduler", "owner=helm,name=kai"),
        ("gpu-operator", "owner=helm,name=gpu-operator"),
        ("vc-a", "owner=helm,name=a"),
    }


def test_nothing_is_written(world: FakeApiServer) -> None:
    inventory(world.cluster)
    assert {call.verb for call in world.calls} <= {"get", "list", "create"}
    assert {call.kind for call in world.calls_of("create")} == {"SelfSubjectReview"}


def test_a_broken_release_does_not_hide_the_rest(world: FakeApiServer) -> None:
    secret = release_secret("kai", "kai-scheduler", {}, version="v0.16.8", revision=3)
    world.add({**secret, "data": {"release": "bm90aGVsbQ=="}})
    found = inventory(world.cluster)
    assert found.kai is not None
    assert (found.kai.version, found.kai.release) == ("0.16.8", None)


def test_credentials_that_are_refused_are_one_error(world: FakeApiServer) -> None:
    world.react("list", "*", lambda _: (401, "Unauthorized"))
    with pytest.raises(ApiFailed, match="Unauthorized"):
        inventory(world.cluster)


def test_cgroups_come_from_kubelets_alone(world: FakeApiServer) -> None:
    config = {"kubeletconfig": {"cgroupDriver": "systemd"}}

    def kubelet(call: Call) -> Any:
        return config if call.name == "gpu-1" else None

    world.react("get", "Node", kubelet)
    found = {one.name: one for one in inventory(world.cluster).nodes}
    assert (found["gpu-1"].cgroup_driver, found["gpu-1"].cgroup_version) == ("systemd", "")
    assert found["mig-1"].cgroup_driver == ""


def test_cgroup_version_of_the_kubelets_metrics(world: FakeApiServer) -> None:
    world.react("get", "Node", lambda _: "# HELP x\nkubelet_cgroup_version 2\nkubelet_x 1\n")
    assert {one.cgroup_version for one in inventory(world.cluster).nodes} == {"2"}
