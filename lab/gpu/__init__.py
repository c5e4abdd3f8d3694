"""GPUs of the lab's nodes: real ones, or simulated ones with everything above the driver real."""

from __future__ import annotations

from lab.config import LabSpec
from lab.engine.step import Step
from lab.gpu.device_plugin import GpuPlugin
from lab.gpu.feature_labels import GpuLabels
from lab.gpu.nvidia.steps import RealGpuLabels, RealGpuNodes, RealGpuPlugin
from lab.gpu.nvidia.verify import RealGpuProof
from lab.gpu.pools import pools_by_node
from lab.gpu.present import PresentGpus
from lab.gpu.restart_recovery import GpuHeal
from lab.gpu.simulated.assigner import GpuAssigner, assigner_image
from lab.gpu.simulated.named_nodes import NamedGpuNodes
from lab.gpu.simulated.nodes import GpuNodes
from lab.session.context import LabContext

__all__ = ["GpuHeal", "GpuLabels", "GpuNodes", "GpuPlugin", "gpu_steps"]


def gpu_steps(spec: LabSpec) -> list[Step[LabContext]]:
    """Return the steps that give the lab its GPUs. ``auto`` counts as ``simulated``: the plan resolves it."""
    if spec.gpu.mode == "present":
        return [PresentGpus(spec)]
    if not pools_by_node(spec):
        return []
    if not spec.cluster.own:
        return [NamedGpuNodes(spec), *([GpuAssigner(spec)] if assigner_image(spec) else [])]
    if spec.gpu.mode == "nvidia":
        return [RealGpuNodes(spec), RealGpuPlugin(spec), RealGpuLabels(spec), GpuHeal(spec), RealGpuProof(spec)]
    return [GpuNodes(spec), GpuPlugin(spec), GpuLabels(spec), GpuHeal(spec)]
