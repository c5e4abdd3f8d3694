"""Steps ``gpu-plugin`` and ``gpu-labels`` in mode nvidia: the device plugin and labels for real GPUs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from lab.engine.step import Effect
from lab.gpu.device_plugin import GpuPlugin, Offer, Offers
from lab.gpu.feature_labels import Expected, GpuLabels, Labels
from lab.gpu.nvidia.claims import recorded
from lab.gpu.simulated.devices import product_label
from lab.host.nvml import GpuDevice
from lab.kai.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from lab.paths import assets
from lab.session.context import LabContext


@dataclass(frozen=True)
class RealGpuPlugin(GpuPlugin):
    """RuntimeClass and device plugin for real GPUs.

    All strategies use the same unprivileged DaemonSet without hostNetwork: the node's NVIDIA runtime gives it device
    nodes and libraries, from wherever the node has them.
    """

    def offers(self, ctx: LabContext) -> Offers:
        """All GPUs of a node by the journal."""
        return {node: Offer(len(gpus)) for node, gpus in recorded(ctx.journal).items()}

    def config_hash(self) -> str:
        """A hash of the manifest: a node's GPUs stay the same as long as it lives."""
        manifest = (assets("manifests") / "gpu" / "device-plugin.yaml").read_text()
        return hashlib.sha256(manifest.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class RealGpuLabels(GpuLabels):
    """Labels of the GPU nodes, as GPU feature discovery finds them on the real GPUs."""

    def effects(self) -> tuple[Effect, ...]:
        what = "run GPU feature discovery once on each GPU node and label the node with the result"
        return (Effect("cluster", what),)

    def expected(self, ctx: LabContext, present: Labels) -> Expected:
        """Product and memory by NVML of this machine."""
        return {node: _expected(gpus, present.get(node, {})) for node, gpus in recorded(ctx.journal).items()}


def _expected(gpus: tuple[GpuDevice, ...], labels: Mapping[str, str]) -> dict[str, list[str]]:
    """The label that has to be checked next: discovery describes one model of a node with several."""
    fitting = [gpu for gpu in gpus if product_label(gpu.name) == labels.get(GPU_PRODUCT_LABEL)]
    if not fitting:
        return {GPU_PRODUCT_LABEL: list(dict.fromkeys(product_label(gpu.name) for gpu in gpus))}
    return {GPU_MEMORY_LABEL: list(dict.fromkeys(str(gpu.memory_mib) for gpu in fitting))}
