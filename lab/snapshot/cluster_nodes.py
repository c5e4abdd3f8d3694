"""The nodes of a cluster as they describe themselves: software, GPUs, and the cgroups that their kubelets report."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from lab.errors import ApiFailed
from lab.kai.names import GPU_COUNT_LABEL, GPU_RESOURCE, MIG_PREFIX
from lab.kube import Cluster
from lab.objects.fields import Obj, parts, whole
from lab.objects.views import NodeView

SHARED_GPU_RESOURCE = "nvidia.com/gpu.shared"
"""Time slices of GPUs where the device plugin renames them (k8s-device-plugin, timeSlicing.renameByDefault)."""

_ROLE = "node-role.kubernetes.io/"
_KUBELETS = 8
"""Kubelets that are asked for their cgroups at most: a large cluster is not asked node by node."""
_KUBELET_SECONDS = 5.0


@dataclass(frozen=True)
class ClusterNode:
    """A node, and its GPUs as its labels and its kubelet name them."""

    name: str
    roles: tuple[str, ...]
    ready: bool
    unschedulable: bool
    kubelet: str
    """Version, like v1.34.4."""
    runtime: str
    """Container runtime and its version: containerd://2.1.4."""
    os: str
    kernel: str
    taints: tuple[str, ...]
    """As kubectl prints them: ``key=value:Effect``."""
    gpu_product: str
    gpu_memory: int | None
    """MiB of one GPU."""
    gpu_count: int | None
    """Physical GPUs by the label nvidia.com/gpu.count, which GPU feature discovery writes."""
    gpu_replicas: int
    """``nvidia.com/gpu`` per GPU: more than 1 if pods share GPUs by time-slicing."""
    gpus: Mapping[str, int]
    """Allocatable nvidia.com/gpu, nvidia.com/gpu.shared and nvidia.com/mig-*, without those that are 0."""
    cgroup_driver: str = ""
    """systemd or cgroupfs, from the kubelet; empty if it was not read."""
    cgroup_version: str = ""
    """1 or 2, from the kubelet's metrics (Kubernetes 1.31); empty if it was not read. Nothing else tells it."""

    @classmethod
    def of(cls, obj: Obj) -> ClusterNode:
        view, info = NodeView.of(obj), parts(obj)[2].get("nodeInfo") or {}
        return cls(
            name=view.name,
            roles=tuple(sorted(key.removeprefix(_ROLE) for key in view.labels if key.startswith(_ROLE))),
            ready=view.ready,
            unschedulable=view.unschedulable,
            kubelet=view.kubelet_version,
            runtime=info.get("containerRuntimeVersion", ""),
            os=info.get("osImage", ""),
            kernel=info.get("kernelVersion", ""),
            taints=view.taints,
            gpu_product=view.gpu_product,
            gpu_memory=view.gpu_memory,
            gpu_count=whole(view.labels.get(GPU_COUNT_LABEL)),
            gpu_replicas=view.gpu_replicas,
            gpus={name: int(count) for name, count in sorted(view.allocatable.items()) if _is_gpu(name) and count},
        )


def total_gpus(nodes: Iterable[ClusterNode]) -> Mapping[str, int]:
    """The GPU resources of the nodes that are ready and not cordoned."""
    total: Counter[str] = Counter()
    for node in nodes:
        if node.ready and not node.unschedulable:
            total.update(node.gpus)
    return dict(sorted(total.items()))


def cgroups_in_words(nodes: Iterable[ClusterNode]) -> str:
    """The cgroup versions of the nodes that were read, and their drivers; otherwise why they are not known."""
    nodes = tuple(nodes)
    versions = sorted({f"v{node.cgroup_version}" for node in nodes if node.cgroup_version})
    drivers = sorted({node.cgroup_driver for node in nodes if node.cgroup_driver})
    version = " and ".join(versions) or "version unknown: no kubelet that could be read reports it"
    return version + (f", driver {' and '.join(drivers)}" if drivers else "")


def with_cgroups(cluster: Cluster, nodes: tuple[ClusterNode, ...]) -> tuple[tuple[ClusterNode, ...], bool]:
    """The nodes with the cgroups that their kubelets report, and whether all kubelets that were asked refused."""
    asked = [node.name for node in nodes if node.ready][:_KUBELETS]
    with ThreadPoolExecutor(max_workers=_KUBELETS, thread_name_prefix="kubelets") as pool:
        found = dict(zip(asked, pool.map(lambda name: _cgroups(cluster, name), asked), strict=True))
    answers = {name: cgroups for name, cgroups in found.items() if cgroups}
    described = tuple(
        replace(node, cgroup_driver=driver, cgroup_version=version)
        for node in nodes
        for driver, version in (answers.get(node.name, ("", "")),)
    )
    return described, bool(asked and not answers)


def _cgroups(cluster: Cluster, node: str) -> tuple[str, str] | None:
    """Driver and version of a node's cgroups, empty where the kubelet does not report them; None without an answer."""
    try:
        config, metrics = (_kubelet(cluster, node, page) for page in ("configz", "metrics"))
    except ApiFailed:
        return None
    try:
        driver = str(json.loads(config)["kubeletconfig"]["cgroupDriver"])
    except (ValueError, KeyError, TypeError):
        driver = ""
    version = re.search(r"^kubelet_cgroup_version(?:\{.*\})? (\d)", metrics, re.MULTILINE)
    return driver, version[1] if version else ""


def _kubelet(cluster: Cluster, node: str, page: str) -> str:
    path = f"{cluster.kinds.named('Node').path(None, node, 'proxy')}/{page}"
    title = f"{page} of the kubelet of {node}"
    return cluster.calls.raw("GET", path, title=title, timeout=_KUBELET_SECONDS, attempts=1).decode(errors="replace")


def _is_gpu(resource: str) -> bool:
    return resource in (GPU_RESOURCE, SHARED_GPU_RESOURCE) or resource.startswith(MIG_PREFIX)
