"""The lab itself: nodes, GPUs, runtime class, device plugin, and the GPUs inside a container."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lab.config.gpu_models import product_label
from lab.gpu.pools import pools_by_node
from lab.kube import Cluster
from lab.objects.views import NodeView, PodView
from lab.session.lab import Lab
from lab.workloads.namespace import Inside, WorkloadNamespace
from lab.workloads.pods import cpu_pod, gpu_pod

from .checks import on_gpus, on_one_node

DEVICE_PLUGIN = "k8s-device-plugin"


def with_gpus(cluster: Cluster) -> list[NodeView]:
    """All nodes with GPUs, dedicated nodes included."""
    return [node for node in map(NodeView.of, cluster.list("Node")) if node.gpus]


@pytest.mark.without_kai
def test_nodes_are_ready(lab: Lab, cluster: Cluster) -> None:
    nodes = [NodeView.of(obj) for obj in cluster.list("Node")]
    if not lab.spec.cluster.own:
        assert any(node.ready and not node.unschedulable for node in nodes)
    else:
        cluster.wait_ready("Node", [node.name for node in nodes], timeout=10)
        assert len(nodes) == lab.spec.cluster.control_planes + lab.spec.cluster.workers
        assert {node.kubelet_version for node in nodes} == {f"v{lab.spec.cluster.kubernetes}"}


@pytest.mark.without_kai
def test_pytest_kind_is_attached(lab: Lab, cluster: Cluster, kind_cluster: Any) -> None:
    assert kind_cluster.name == lab.kind_name
    listed = set(kind_cluster.kubectl("get", "nodes", "-o", "name").split())
    assert listed == {f"node/{NodeView.of(obj).name}" for obj in cluster.list("Node")}


@pytest.mark.without_kai
@on_gpus()
def test_gpus_are_allocatable_as_in_the_lab_file(lab: Lab, cluster: Cluster) -> None:
    if lab.gpu_mode != "simulated":
        pytest.skip(f"GPUs are {lab.gpu_mode}: the lab file does not have their number")
    pools = pools_by_node(lab.spec)
    seen = {node.name: (node.gpus, node.gpu_memory, node.gpu_product) for node in with_gpus(cluster)}
    assert seen == {name: (pool.per_node, pool.memory, product_label(pool.model)) for name, pool in pools.items()}


@pytest.mark.without_kai
@pytest.mark.devices
@pytest.mark.gpus
def test_runtime_class_leads_to_the_nvidia_handler(lab: Lab, cluster: Cluster) -> None:
    runtime_class = cluster.get("RuntimeClass", "nvidia")
    if runtime_class is None and not lab.spec.cluster.own:
        pytest.skip("the cluster has no RuntimeClass nvidia: its nodes' default runtime injects GPUs")
    assert runtime_class is not None
    assert runtime_class["handler"] == "nvidia"


@pytest.mark.without_kai
@on_gpus()
def test_device_plugin_runs_unprivileged(lab: Lab, cluster: Cluster) -> None:
    if not lab.spec.cluster.own:
        pytest.skip("the device plugin is the cluster's own, and its privileges are its owner's choice")
    pods = [
        pod
        for pod in cluster.list("Pod")
        if any(DEVICE_PLUGIN in container["image"] for container in pod["spec"]["containers"])
    ]
    ready = {view.node for view in map(PodView.of, pods) if view.ready}
    assert ready == {node.name for node in with_gpus(cluster)}
    for pod in pods:
        assert not pod["spec"].get("hostNetwork")
        assert not pod["spec"].get("hostPID")
        for container in pod["spec"]["containers"]:
            assert not container.get("securityContext", {}).get("privileged")


@pytest.mark.without_kai
def test_pod_without_gpu_sees_none(workloads: WorkloadNamespace, probe: Callable[[PodView], Inside]) -> None:
    workloads.submit(cpu_pod("plain", scheduler=None))
    (pod,) = workloads.running("plain")
    assert probe(pod).devices == ()


@pytest.mark.without_kai
@pytest.mark.devices
@on_one_node()
def test_pod_with_one_gpu_sees_exactly_that_one(
    workloads: WorkloadNamespace, probe: Callable[[PodView], Inside], gpu_uuids: Callable[[str], frozenset[str] | None]
) -> None:
    workloads.submit(gpu_pod("one", scheduler=None))
    (pod,) = workloads.running("one")
    inside = probe(pod)
    assert len(inside.gpus) == 1
    (uuid,) = inside.visible
    assert uuid.startswith("GPU-")
    known = gpu_uuids(pod.node)
    assert known is None or uuid in known
