"""Step ``gpu-labels``: the nodes carry the labels that NVIDIA's GPU feature discovery finds.

GPU feature discovery leaves labelling to Node Feature Discovery, which the lab does not run. So it runs once
in the device plugin's pod, which has the node's GPUs and the program, and the lab puts its findings onto the
node. KAI needs ``nvidia.com/gpu.memory``: pods that ask for GPU memory are unschedulable without it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from lab.config import LabSpec, NodePool
from lab.engine.step import Effect, Observed
from lab.errors import StepFailed
from lab.gpu.device_plugin import NAMESPACE, SELECTOR
from lab.gpu.pools import pools_by_node
from lab.gpu.simulated.devices import product_label
from lab.gpu.simulated.nodes import each, gpu_nodes
from lab.kai.names import GPU_COUNT_LABEL, GPU_MEMORY_LABEL, GPU_PRESENT_LABEL, GPU_PRODUCT_LABEL
from lab.objects.views import PodView
from lab.session.context import LabContext
from lab.session.step import LabStep

DISCOVERY = ("/usr/bin/gpu-feature-discovery", "--oneshot", "--no-timestamp", "--output-file=")
"""An empty output file is stdout (k8s-device-plugin v0.18.0, internal/lm/output.go)."""

_FOUND = re.compile(r"^(nvidia\.com/[A-Za-z0-9._-]+)=([A-Za-z0-9._-]*)$", re.MULTILINE)
_OURS = re.compile(r"nvidia\.com/(cuda|gfd|gpu|mig|mps|vgpu)\.(?!present$|deploy\.)")


@dataclass(frozen=True)
class GpuLabels(LabStep):
    """Labels of the GPU nodes."""

    spec: LabSpec
    needs: tuple[str, ...] = ("gpu-plugin",)
    id: str = "gpu-labels"
    title: str = "GPU labels"

    def effects(self) -> tuple[Effect, ...]:
        found = dict.fromkeys(
            f"{GPU_MEMORY_LABEL}={pool.memory}, {GPU_PRODUCT_LABEL}={product_label(pool.model)}"
            for pool in pools_by_node(self.spec).values()
        )
        return (
            Effect(
                "cluster",
                f"run GPU feature discovery once on each GPU node and label the node with what it finds:"
                f" {'; '.join(found)}, …",
            ),
        )

    def expected(self, pool: NodePool) -> dict[str, str]:
        """The labels of a node that follow from its pool."""
        return {
            GPU_COUNT_LABEL: str(pool.per_node),
            GPU_MEMORY_LABEL: str(pool.memory),
            GPU_PRODUCT_LABEL: product_label(pool.model),
        }

    def observe(self, ctx: LabContext) -> Observed:
        nodes = {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in _nodes(ctx)}
        pools = pools_by_node(self.spec)
        wanted = {node.name: self.expected(pools[node.name]) for node in gpu_nodes(ctx)}
        seen = {name: nodes.get(name, {}) for name in wanted}
        if not any(key in seen[name] for name, labels in wanted.items() for key in labels):
            return Observed.absent()
        diff = [
            f"{name}: label {key} is {seen[name].get(key, 'missing')}, should be {value}"
            for name, labels in wanted.items()
            for key, value in labels.items()
            if seen[name].get(key) != value
        ]
        if diff:
            return Observed.drifted("labels differ", diff)
        return Observed.ready(", ".join(dict.fromkeys(labels[GPU_PRODUCT_LABEL] for labels in wanted.values())))

    def apply(self, ctx: LabContext) -> None:
        """See Step.

        Raises:
            ApiFailed: GPU feature discovery failed, or the server refused the labels.
            StepFailed: a GPU node has no running device plugin.
        """
        cluster = ctx.cluster()
        pods = [PodView.of(pod) for pod in cluster.list("Pod", NAMESPACE, labels=SELECTOR)]
        plugin = {pod.node: pod.name for pod in pods if pod.ready and not pod.deleting}
        names = [node.name for node in gpu_nodes(ctx)]
        if without := [name for name in names if name not in plugin]:
            raise StepFailed(
                f"the device plugin does not run on {', '.join(without)}",
                evidence=[f"{pod.name} on {pod.node}: {pod.phase}" for pod in pods],
                fix="lab up again",
            )

        def discover(name: str) -> dict[str, str]:
            return found(cluster.exec(plugin[name], NAMESPACE, DISCOVERY, timeout=60))

        present = {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in _nodes(ctx)}
        for name, labels in zip(names, each(discover, names), strict=True):
            stale = {key: None for key in present.get(name, {}) if _OURS.match(key) and key not in labels}
            cluster.patch("Node", name, {"metadata": {"labels": {**stale, **labels}}})

    def verify(self, ctx: LabContext) -> None:
        """Raise StepFailed unless what was found agrees with the lab file."""
        seen = self.observe(ctx)
        if seen.diff:
            raise StepFailed(
                "GPU feature discovery found other GPUs than the lab file describes",
                evidence=seen.diff,
                fix="lab up again; if it stays so, lab down and lab up",
            )


def found(output: str) -> dict[str, str]:
    """The labels in what GPU feature discovery wrote, between whatever it logged.

    Raises:
        StepFailed: there are none.
    """
    labels = dict(_FOUND.findall(output))
    if not labels:
        raise StepFailed("GPU feature discovery found no GPU", evidence=output.splitlines()[-12:], fix="lab up again")
    return labels


def _nodes(ctx: LabContext) -> list[dict[str, Any]]:
    return ctx.cluster().list("Node", labels=f"{GPU_PRESENT_LABEL}=true")
