"""A cluster that others made and use: GPUs of three kinds, KAI and GPU Operator by Helm, a vCluster, a shop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab.kai import line_of
from tests.support.access_reviews import permit
from tests.support.builders import Json, metadata, node, pod, queue, ready_deployment, release_secret
from tests.support.fake_api_server import FakeApiServer

KAI = "0.16.8"


def existing_cluster() -> FakeApiServer:
    """The cluster; its user, jane, may do everything."""
    api = FakeApiServer(*_nodes(), *_kai(), *_gpu_operator(), *_vcluster(), *_others())
    api.serve("ClusterPolicy", "nvidia.com/v1", "clusterpolicies", namespaced=False)
    api.put("ClusterPolicy", "cluster-policy", metadata=helm("gpu-operator", "gpu-operator"), status={"state": "ready"})
    permit(api, lambda _: True)
    return api


def kubeconfig(file: Path, *contexts: str) -> Path:
    """A kubeconfig with these contexts; the first is the current one."""
    data = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in contexts],
        "current-context": contexts[0],
    }
    file.write_text(json.dumps(data))
    return file


def helm(namespace: str, name: str) -> Json:
    """Metadata of an object of a Helm release."""
    notes = {"meta.helm.sh/release-namespace": namespace, "meta.helm.sh/release-name": name}
    return {"annotations": notes, "labels": {"app.kubernetes.io/managed-by": "Helm"}}


def _node(name: str, labels: Json, allocatable: Json, **more: Any) -> Json:
    info = {
        "kubeletVersion": "v1.34.4",
        "containerRuntimeVersion": "containerd://2.1.4",
        "osImage": "Ubuntu 24.04",
        "kernelVersion": "6.8.0",
    }
    status = {"allocatable": {"cpu": "8", **allocatable}, "nodeInfo": info}
    return node(name, labels={"node-role.kubernetes.io/worker": "", **labels}, status=status, **more)


def _nodes() -> list[Json]:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    product = {"nvidia.com/gpu.product": "NVIDIA-H100", "nvidia.com/gpu.memory": "81559", "nvidia.com/gpu.count": "8"}
    return [
        _node("gpu-1", product, {"nvidia.com/gpu": "8"}, spec={"taints": [taint]}),
        _node("mig-1", {"nvidia.com/mig.strategy": "mixed"}, {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "7"}),
        _node("shared-1", {"nvidia.com/gpu.replicas": "4"}, {"nvidia.com/gpu.shared": "4"}),
    ]


def _kai() -> list[Json]:
    image = f"ghcr.io/kai-scheduler/kai-scheduler/operator:v{KAI}"
    deployments = [ready_deployment(name, "kai-scheduler") for name in line_of(KAI).deployments]
    for one in deployments:
        one["spec"]["template"]["spec"]["containers"] = [{"name": "main", "image": image}]
    operator = next(one for one in deployments if one["metadata"]["name"] == "kai-operator")
    operator["metadata"].update(helm("kai-scheduler", "kai"))
    return [
        {"kind": "Namespace", "metadata": metadata("kai-scheduler")},
        *deployments,
        release_secret("kai", "kai-scheduler", {}, version="v0.15.0", chart="kai-scheduler", status="superseded"),
        release_secret("kai", "kai-scheduler", {}, version=f"v{KAI}", chart="kai-scheduler", revision=2),
        {"kind": "Config", "metadata": metadata("kai-config"), "spec": {"admission": {"gpuSharing": True}}},
        {"kind": "SchedulingShard", "metadata": metadata("default"), "spec": {"partitionLabelValue": ""}},
        pod("binder-x", "kai-scheduler"),
        queue("org", managedFields=[{"manager": "kubectl", "operation": "Apply", "time": "2026-01-01T00:00:00Z"}]),
        queue("team-a", "org", resources={"gpu": {"quota": 2, "limit": 4, "overQuotaWeight": 1}}),
        queue("team-b", "org"),
    ]


def _gpu_operator() -> list[Json]:
    operator = ready_deployment("gpu-operator", "gpu-operator")
    operator["metadata"].update(helm("gpu-operator", "gpu-operator"))
    operator["spec"]["template"]["spec"]["containers"] = [{"image": "nvcr.io/nvidia/gpu-operator:v25.3.0"}]
    plugin = {"containers": [{"image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"}]}
    return [
        operator,
        release_secret("gpu-operator", "gpu-operator", {}, version="v25.3.0"),
        _daemon_set("nvidia-device-plugin-daemonset", "gpu-operator", plugin),
        _daemon_set("kindnet", "kube-system", {"containers": [{"image": "kindnetd:v1"}]}),
        _of_daemon_set(pod("plugin-x", "gpu-operator"), "nvidia-device-plugin-daemonset"),
    ]


def _daemon_set(name: str, namespace: str, spec: Json) -> Json:
    return {"kind": "DaemonSet", "metadata": metadata(name, namespace), "spec": {"template": {"spec": spec}}}


def _of_daemon_set(obj: Json, name: str) -> Json:
    obj["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": name, "controller": True}]
    return obj


def _vcluster() -> list[Json]:
    labels = {"app": "vcluster", "chart": "vcluster-0.36.1", "release": "a", "app.kubernetes.io/managed-by": "Helm"}
    meta = {**metadata("a", "vc-a"), **helm("vc-a", "a"), "labels": labels}
    return [
        {"kind": "StatefulSet", "metadata": meta, "spec": {"replicas": 1}},
        release_secret("a", "vc-a", {}, version="0.36.1", chart="vcluster"),
        pod("a-0", "vc-a"),
    ]


def _others() -> list[Json]:
    return [
        {"kind": "Namespace", "metadata": metadata("kube-system")},
        {"kind": "Namespace", "metadata": metadata("lab-ns", labels={"kailab": "x"})},
        pod("coredns", "kube-system"),
        pod("train", "lab-ns"),
        pod("web-1", "shop"),
        pod("web-2", "shop"),
        pod("done", "shop", phase="Succeeded"),
        {"kind": "RuntimeClass", "metadata": metadata("nvidia"), "handler": "nvidia"},
        {
            "kind": "StorageClass",
            "metadata": metadata("standard", annotations={"storageclass.kubernetes.io/is-default-class": "true"}),
            "provisioner": "rancher.io/local-path",
        },
        {"kind": "StorageClass", "metadata": metadata("slow"), "provisioner": "example.com/disk"},
    ]
