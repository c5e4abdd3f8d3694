"""The steps of mode nvidia: real GPUs in the nodes, NVIDIA's device plugin, labels, and the proof of it all."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from lab.config import LabSpec
from lab.engine.step import Effect, Observed, Step
from lab.errors import SpecError
from lab.gpu.device_plugin import GpuPlugin, Offer, Offers
from lab.gpu.feature_labels import GpuLabels
from lab.gpu.nvidia.claims import recorded
from lab.gpu.nvidia.nodes import RealGpuNodes
from lab.gpu.nvidia.verify import RealGpuProof
from lab.gpu.restart_recovery import GpuHeal
from lab.gpu.simulated.devices import product_label
from lab.host.nvml import GpuDevice
from lab.kai.names import GPU_MEMORY_LABEL, GPU_PRESENT_LABEL, GPU_PRODUCT_LABEL
from lab.paths import assets
from lab.session.context import LabContext


def real_gpu_steps(spec: LabSpec) -> list[Step[LabContext]]:
    """The steps that give the lab real GPUs.

    Raises:
        SpecError: the cluster is somebody else's.
    """
    if spec.cluster.provider == "existing":
        raise SpecError(
            "gpu.mode 'nvidia' on provider 'existing': the lab gives GPUs to nodes it makes, and changes no others",
            fix="set gpu.mode to 'none' (the cluster keeps the GPUs it has), or cluster.provider to 'kind'",
        )
    return [RealGpuNodes(spec), RealGpuPlugin(spec), RealGpuLabels(spec), GpuHeal(spec), RealGpuProof(spec)]


@dataclass(frozen=True)
class RealGpuPlugin(GpuPlugin):
    """RuntimeClass and device plugin for real GPUs.

    The same unprivileged DaemonSet, without hostNetwork, for all strategies: the node's NVIDIA runtime gives it
    device nodes and libraries, wherever the node has them from.
    """

    def offers(self, ctx: LabContext) -> Offers:
        """As many as the journal says the node has."""
        return {node: Offer(len(gpus)) for node, gpus in recorded(ctx.journal).items()}

    def config_hash(self) -> str:
        """Changes with the manifest only: a node's GPUs stay the same as long as it lives."""
        manifest = (assets("manifests") / "gpu" / "device-plugin.yaml").read_text()
        return hashlib.sha256(manifest.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class RealGpuLabels(GpuLabels):
    """Labels of the GPU nodes, as GPU feature discovery finds them on the real GPUs."""

    def effects(self) -> tuple[Effect, ...]:
        what = "run GPU feature discovery once on each GPU node and label the node with what it finds"
        return (Effect("cluster", what),)

    def observe(self, ctx: LabContext) -> Observed:
        """KAI needs the memory; product and count are compared with what NVML told of the machine."""
        nodes = ctx.cluster().list("Node", labels=f"{GPU_PRESENT_LABEL}=true")
        present = {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in nodes}
        shares = recorded(ctx.journal)
        seen = {node: present.get(node, {}) for node in shares}
        if not any(GPU_MEMORY_LABEL in labels for labels in seen.values()):
            return Observed.absent()
        diff = [line for node, gpus in shares.items() for line in _unlike(node, gpus, seen[node])]
        if diff:
            return Observed.drifted("labels differ", diff)
        return Observed.ready(", ".join(dict.fromkeys(labels[GPU_PRODUCT_LABEL] for labels in seen.values())))


def _unlike(node: str, gpus: tuple[GpuDevice, ...], labels: dict[str, str]) -> list[str]:
    """Where a node's labels do not fit its GPUs; discovery describes one model where there are several."""
    product, memory = labels.get(GPU_PRODUCT_LABEL), labels.get(GPU_MEMORY_LABEL)
    fitting = [gpu for gpu in gpus if product_label(gpu.name) == product]
    if not fitting:
        names = ", ".join(dict.fromkeys(product_label(gpu.name) for gpu in gpus))
        return [f"{node}: label {GPU_PRODUCT_LABEL} is {product or 'missing'}, should be {names}"]
    if memory not in {str(gpu.memory_mib) for gpu in fitting}:
        return [f"{node}: label {GPU_MEMORY_LABEL} is {memory or 'missing'}, should be {fitting[0].memory_mib}"]
    return []
