"""The probe: its report from inside a container matches the API and the lab file."""

from __future__ import annotations

from typing import Any

import pytest

from lab.config.gpu_models import product_label
from lab.errors import ApiFailed
from lab.kube import Cluster
from lab.objects.views import NodeView
from lab.session.lab import Lab
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod, fraction_pod, gpu_pod
from lab.workloads.probe import ProbeFacts, facts_in, facts_when, server_in, serving

from .checks import gpu_group, on_one_node, reservations
from .scheduling_decisions import WAIT

PATIENCE = 30.0
"""Seconds until the API server reaches a pod that has just become ready."""


def restricted(pod: dict[str, Any]) -> dict[str, Any]:
    """A pod with the fewest privileges that Kubernetes allows."""
    (container,) = pod["spec"]["containers"]
    container["securityContext"] = {
        "runAsUser": 65534,
        "runAsNonRoot": True,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    return pod


@pytest.mark.without_kai
def test_pod_without_a_gpu(workloads: WorkloadNamespace) -> None:
    workloads.submit(restricted(serving(cpu_pod("none", scheduler=None))))
    (pod,) = workloads.running("none", timeout=WAIT)
    facts = ProbeFacts.of(server_in(workloads, pod).get("/facts", patience=PATIENCE))
    assert (facts.hostname, facts.pid) == ("none", 1)
    assert (facts.devices, facts.device_files, facts.driver) == ((), (), "")
    assert "nvidia-smi" in facts.error
    assert facts.env == {}


@pytest.mark.without_kai
@pytest.mark.devices
@on_one_node()
def test_pod_with_a_gpu_of_its_own(lab: Lab, workloads: WorkloadNamespace, cluster: Cluster) -> None:
    workloads.submit(restricted(serving(gpu_pod("whole", scheduler=None))))
    (pod,) = workloads.running("whole", timeout=WAIT)
    facts = ProbeFacts.of(server_in(workloads, pod).get("/facts", patience=PATIENCE))
    (device,) = facts.devices
    assert (facts.hostname, facts.error, device.index, device.error) == ("whole", "", 0, "")
    assert workloads.look(pod).visible == facts.uuids
    assert "/dev/nvidiactl" in facts.device_files
    assert "GPU_PORTION" not in facts.env
    node = NodeView.of(cluster.get("Node", pod.node) or {})
    assert (device.memory, product_label(device.name)) == (node.gpu_memory, node.gpu_product)
    if lab.gpu_mode == "simulated":
        assert device.used == 0


@pytest.mark.kai
@pytest.mark.devices
@on_one_node()
def test_pod_with_a_part_of_a_gpu(lab: Lab, workloads: WorkloadNamespace, cluster: Cluster, queue: str) -> None:
    workloads.submit(fraction_pod("half", fraction=0.5, queue=queue))
    (pod,) = workloads.running("half", timeout=WAIT)
    facts = facts_in(workloads, pod)
    (held,) = reservations(cluster, gpu_group(pod))
    assert facts.uuids == (held.reserved_gpu,)
    assert facts.env["NVIDIA_VISIBLE_DEVICES"].rpartition("=")[2] == held.reserved_gpu
    assert float(facts.env["GPU_PORTION"]) == pytest.approx(0.5)
    assert facts.env["RUNAI_NUM_OF_GPUS"] == facts.env["GPU_PORTION"]
    (device,) = facts.devices
    node = NodeView.of(cluster.get("Node", pod.node) or {})
    assert device.memory == node.gpu_memory  # KAI shares a GPU, it does not partition it
    if lab.gpu_mode == "simulated":
        facts_when(
            workloads,
            pod,
            lambda facts: abs(facts.devices[0].used - device.memory / 2) <= 1,
            timeout=WAIT,
            what="half of the GPU's memory is in use",
        )


@pytest.mark.without_kai
def test_vllms_command_line_starts_the_stand_in(workloads: WorkloadNamespace) -> None:
    """The container of the reference text's Deployment, with another image."""
    pod = serving(cpu_pod("vllm", scheduler=None))
    model = "Qwen/Qwen2.5-1.5B-Instruct"
    (container,) = pod["spec"]["containers"]
    container |= {"command": ["/bin/sh", "-c"], "args": [f"vllm serve {model} --gpu-memory-utilization=0.7"]}
    workloads.submit(pod)
    (view,) = workloads.running("vllm", timeout=WAIT)
    server = server_in(workloads, view)
    (served,) = server.get("/v1/models", patience=PATIENCE)["data"]
    assert served["id"] == model
    for path, status in (("/v1/nothing", 404), ("/v1/completions", 405)):
        with pytest.raises(ApiFailed) as refused:
            server.get(path)
        assert refused.value.status == status
    with pytest.raises(ApiFailed) as refused:
        server.post("/v1/completions", {"model": "another", "prompt": "a"})
    assert refused.value.status == 404


@pytest.mark.without_kai
def test_probe_ends_at_once_when_told_to(workloads: WorkloadNamespace, cluster: Cluster) -> None:
    """Its first process must handle SIGTERM: otherwise the pod is killed after a grace period of 10 minutes."""
    pod = serving(cpu_pod("ending", scheduler=None))
    pod["spec"]["terminationGracePeriodSeconds"] = 600
    workloads.submit(pod)
    workloads.running("ending", timeout=WAIT)
    cluster.delete("Pod", "ending", workloads.namespace, wait=WAIT)
