"""Step ``gpu-labels``: the nodes carry the labels that NVIDIA's GPU feature discovery finds.

GPU feature discovery leaves labelling to Node Feature Discovery, which the lab does not run. So kailab runs it once in
the device plugin's pod, which has the node's GPUs and the program, and labels the node with the result. KAI needs
``nvidia.com/gpu.memory``: pods that ask for GPU memory are unschedulable without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lab.config import LabSpec
from lab.config.gpu_models import product_label
from lab.engine.step import Effect, Observed
from lab.errors import StepFailed
from lab.gpu.device_plugin import NAMESPACE, require_plugins
from lab.gpu.nodes import gpu_node_names, labels_by_node, on_nodes, require_planned
from lab.gpu.pools import pools_by_node
from lab.kai.names import GPU_COUNT_LABEL, GPU_MEMORY_LABEL, GPU_PRESENT_LABEL, GPU_PRODUCT_LABEL
from lab.session.context import LabContext
from lab.session.step import LabStep

DISCOVERY = ("/usr/bin/gpu-feature-discovery", "--oneshot", "--no-timestamp", "--output-file=")
"""An empty output file is stdout (k8s-device-plugin v0.18.0, internal/lm/output.go)."""

_DISCOVERED = re.compile(r"^(nvidia\.com/[A-Za-z0-9._-]+)=([A-Za-z0-9._-]*)$", re.MULTILINE)
_OWN = re.compile(r"nvidia\.com/(cuda|gfd|gpu|mig|mps|vgpu)\.(?!present$|deploy\.)")

_GPU_NODES = f"{GPU_PRESENT_LABEL}=true"

Labels = Mapping[str, Mapping[str, str]]
"""Name of a node → its labels."""

Expected = Mapping[str, Mapping[str, list[str]]]
"""Name of a node → label → values that fit its GPUs."""


@dataclass(frozen=True)
class GpuLabels(LabStep):
    """Labels of the GPU nodes."""

    spec: LabSpec
    needs: tuple[str, ...] = ("gpu-plugin",)
    id: str = "gpu-labels"
    title: str = "GPU labels"

    def effects(self) -> tuple[Effect, ...]:
        labels = dict.fromkeys(
            f"{GPU_MEMORY_LABEL}={pool.memory}, {GPU_PRODUCT_LABEL}={product_label(pool.model)}"
            for pool in pools_by_node(self.spec).values()
        )
        what = "run GPU feature discovery once on each GPU node and label the node with the result"
        return (Effect("cluster", f"{what}: {'; '.join(labels)}, …"),)

    def expected(self, ctx: LabContext, present: Labels) -> Expected:
        """The labels that follow from the pool of each GPU node."""
        pools = pools_by_node(self.spec)
        return {
            name: {
                GPU_COUNT_LABEL: [str(pools[name].per_node)],
                GPU_MEMORY_LABEL: [str(pools[name].memory)],
                GPU_PRODUCT_LABEL: [product_label(pools[name].model)],
            }
            for name in gpu_node_names(ctx)
        }

    def observe(self, ctx: LabContext) -> Observed:
        present = labels_by_node(ctx.cluster(), _GPU_NODES)
        expected = self.expected(ctx, present)
        seen = {name: present.get(name, {}) for name in expected}
        if not any(key in seen[name] for name, labels in expected.items() for key in labels):
            return Observed.absent()
        diff = [
            f"{name}: label {key} is {seen[name].get(key, 'missing')}, should be {', '.join(values)}"
            for name, labels in expected.items()
            for key, values in labels.items()
            if seen[name].get(key) not in values
        ]
        if diff:
            return Observed.drifted("labels differ", diff)
        return Observed.ready(", ".join(dict.fromkeys(labels[GPU_PRODUCT_LABEL] for labels in seen.values())))

    def apply(self, ctx: LabContext) -> None:
        """Raises ApiFailed, and StepFailed if a GPU node has no running device plugin or discovery finds no GPU."""
        cluster = ctx.cluster()
        names = gpu_node_names(ctx)
        plugins = require_plugins(cluster, names)
        present = labels_by_node(ctx.cluster(), _GPU_NODES)
        found = on_nodes(names, lambda name: discovered(cluster.exec(plugins[name], NAMESPACE, DISCOVERY, timeout=60)))
        for name, labels in found.items():
            stale = {key: None for key in present.get(name, {}) if _OWN.match(key) and key not in labels}
            cluster.patch("Node", name, {"metadata": {"labels": {**stale, **labels}}})

    def verify(self, ctx: LabContext) -> None:
        """Raise StepFailed unless the labels agree with the lab file."""
        problem = "GPU feature discovery found other GPUs than the lab file describes"
        fix = "kailab up again; if the labels still differ, kailab down and kailab up"
        require_planned(self.observe(ctx), problem, fix)


def discovered(output: str) -> dict[str, str]:
    """Return the labels in the output of GPU feature discovery, log lines left out. Raises StepFailed without any."""
    labels = dict(_DISCOVERED.findall(output))
    if not labels:
        raise StepFailed("GPU feature discovery found no GPU", evidence=output.splitlines()[-12:], fix="kailab up")
    return labels
