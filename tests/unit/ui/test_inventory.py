"""The inventory of a cluster as text."""

from __future__ import annotations

import io

from rich.console import Console

from lab.snapshot.inventory import inventory
from lab.ui.inventory import render_inventory
from tests.support.existing_cluster import existing_cluster
from tests.support.fake_api_server import FakeApiServer


def rendered(api: FakeApiServer) -> list[str]:
    out = io.StringIO()
    render_inventory(inventory(api.cluster), Console(file=out, width=200, color_system=None, markup=False))
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def test_facts_nodes_queues_and_pods_of_others() -> None:
    lines = rendered(existing_cluster())
    assert lines[0] == "Cluster of context kind-kailab-demo https://127.0.0.1:6443"
    for line in (
        "GPUs 8 nvidia.com/gpu, 4 nvidia.com/gpu.shared, 7 nvidia.com/mig-1g.5gb",
        "GPU Operator v25.3.0, Helm release gpu-operator/gpu-operator, deployed",
        "KAI 0.16.8 in namespace kai-scheduler, belongs to Helm release kai-scheduler/kai, gpuSharing on",
        "StorageClasses standard (default), slow",
        "gpu-1 worker ready v1.34.4 8 gpu NVIDIA-H100 81559 MiB nvidia.com/gpu=present:NoSchedule",
        "shared-1 worker ready v1.34.4 4 gpu.shared (4 for each GPU)",
        "team-a 2 4 0 was created at an unknown time",
        "vc-a/a 0.36.1",
        "Pods of others 3 pods",
    ):
        assert line in lines
    assert lines.index("shop 2") < lines.index("vc-a 1")


def test_what_cannot_be_read_is_not_called_missing() -> None:
    api = existing_cluster()
    api.react("list", "*", lambda _: (403, "no"))
    lines = rendered(api)
    assert {"GPUs not readable", "KAI not readable", "StorageClasses not readable"} <= set(lines)
    assert not {"Nodes", "Queues GPUs", "Kubernetes v1.34.4, 0 nodes"} & set(lines)
    assert lines[-1].startswith("! not readable by jane: Namespace, Node, Pod, Deployment")


def test_production_and_broken_components_stand_out() -> None:
    api = existing_cluster()
    meta = api.objects["Namespace", "", "kube-system"]["metadata"]
    api.change("Namespace", "kube-system", metadata={**meta, "annotations": {"kailab.dev/production": "true"}})
    api.change("Deployment", "binder", "kai-scheduler", status={"availableReplicas": 0})
    lines = rendered(api)
    assert "! marked as production (annotation on namespace kube-system)" in lines
    assert "! KAI: Deployment kai-scheduler/binder: 0 of 1 available" in lines
