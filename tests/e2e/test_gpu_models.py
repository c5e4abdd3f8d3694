"""Every node has the GPUs of its pool: its labels, and NVML and nvidia-smi in its pods, report the same."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from lab.config.gpu_models import product_label
from lab.gpu.pools import POOL_LABEL, pools_by_node
from lab.gpu.simulated.devices import SimulatedGpu, gpus_of
from lab.kube import Cluster
from lab.objects.views import NodeView, PodView
from lab.pytest_plugin.gpu_fixtures import gpu_node_names
from lab.session.lab import Lab
from lab.workloads.namespace import Inside, WorkloadNamespace
from lab.workloads.pods import gpu_pod

from .checks import on_gpus

LISTED = re.compile(r"^GPU (\d+): (.+) \(UUID: (GPU-[0-9a-f-]+)\)$", re.MULTILINE)
FIGURES = "uuid,name,memory.total,compute_cap"
PCI = "pci.device_id,pci.sub_device_id"

Gpus = dict[str, tuple[SimulatedGpu, ...]]

pytestmark = pytest.mark.without_kai


@pytest.fixture
def planned(lab: Lab) -> Gpus:
    """The GPUs of each GPU node according to the lab file."""
    if lab.gpu_mode != "simulated" or not lab.gpus_in_containers:
        pytest.skip(f"GPUs are {lab.gpu_mode}: the lab file does not describe what nodes and containers see")
    return {node: gpus_of(lab.spec.name, node, lab.spec.gpu) for node in pools_by_node(lab.spec)}


def query(cluster: Cluster, pod: PodView, fields: str) -> list[str]:
    """Return nvidia-smi's values for the one GPU of a pod."""
    argv = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    return cluster.exec(pod.name, pod.namespace, argv).strip().split(", ")


@on_gpus()
def test_labels_are_those_of_the_model(lab: Lab, cluster: Cluster, planned: Gpus) -> None:
    nodes = {node.name: node for node in map(NodeView.of, cluster.list("Node"))}
    assert {name for name, node in nodes.items() if node.gpus} == set(planned)
    for name, pool in pools_by_node(lab.spec).items():
        labels, model = nodes[name].labels, planned[name][0].model
        major, minor = model.compute.split(".")
        wanted = {
            "nvidia.com/gpu.count": str(pool.per_node),
            "nvidia.com/gpu.memory": str(pool.memory),
            "nvidia.com/gpu.product": product_label(pool.model),
            "nvidia.com/gpu.compute.major": major,
            "nvidia.com/gpu.compute.minor": minor,
            **pool.labels,
            **({POOL_LABEL: pool.name} if pool.name else {}),
        }
        assert {key: labels.get(key) for key in wanted} == wanted, name


@on_gpus()
def test_whole_gpus_are_what_the_lab_file_says_and_nobody_elses(
    lab: Lab, workloads: WorkloadNamespace, cluster: Cluster, planned: Gpus, probe: Callable[[PodView], Inside]
) -> None:
    """One pod for each GPU outside dedicated nodes: each pod sees one GPU, and together they see all of them."""
    planned = {node: planned[node] for node in gpu_node_names(lab)}
    names = {f"gpu-{at}-{gpu.index}": node for at, node in enumerate(planned) for gpu in planned[node]}
    for name, node in names.items():
        asked = gpu_pod(name, scheduler=None)
        asked["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
        workloads.submit(asked)
    pods = workloads.running(*names, timeout=180)
    holders: dict[str, str] = {}
    for pod in pods:
        (uuid,) = probe(pod).visible
        assert uuid not in holders, f"{pod.name} and {holders[uuid]} have the same GPU"
        holders[uuid] = pod.name
        gpu = next((gpu for gpu in planned[pod.node] if gpu.uuid == uuid), None)
        assert gpu is not None, f"{pod.node} has no GPU {uuid}"
        listed = cluster.exec(pod.name, pod.namespace, ["nvidia-smi", "-L"])
        assert LISTED.findall(listed) == [("0", gpu.name, uuid)]
        assert query(cluster, pod, FIGURES) == [uuid, gpu.name, str(gpu.memory), gpu.model.compute]
        if gpu.model.device:
            assert query(cluster, pod, PCI) == [f"0x{gpu.model.pci_id:08X}", f"0x{gpu.model.pci_subsystem_id:08X}"]
    assert set(holders) == {gpu.uuid for gpus in planned.values() for gpu in gpus}


@on_gpus()
def test_nvidia_smi_on_a_node_lists_all_of_its_gpus(lab: Lab, planned: Gpus) -> None:
    engine = lab.context("gpu").engine
    for node, gpus in planned.items():
        listed = LISTED.findall(engine.exec(node, ["nvidia-smi", "-L"], timeout=30).out)
        assert listed == [(str(gpu.index), gpu.name, gpu.uuid) for gpu in gpus], node
