"""GPUs of the lab's nodes: real ones, or simulated ones with everything above the driver real."""

from __future__ import annotations

from lab.config import LabSpec
from lab.engine.step import Step
from lab.errors import SpecError
from lab.gpu.device_plugin import GpuPlugin
from lab.gpu.feature_labels import GpuLabels
from lab.gpu.nvidia.steps import RealGpuLabels, RealGpuNodes, RealGpuPlugin
from lab.gpu.nvidia.verify import RealGpuProof
from lab.gpu.pools import pools_by_node
from lab.gpu.restart_recovery import GpuHeal
from lab.gpu.simulated.nodes import GpuNodes
from lab.session.context import LabContext

__all__ = ["GpuHeal", "GpuLabels", "GpuNodes", "GpuPlugin", "gpu_steps"]


def gpu_steps(spec: LabSpec) -> list[Step[LabContext]]:
    """Return the steps that give the lab its GPUs. ``auto`` counts as ``simulated``: the plan resolves it.

    Raises SpecError if the provider does not allow it.
    """
    pools = pools_by_node(spec)
    if not pools:
        return []
    if spec.cluster.provider == "existing":
        raise SpecError(
            f"gpu.mode '{spec.gpu.mode}' is not supported with provider 'existing': kailab adds GPUs only to node"
            " containers that it created",
            fix="set gpu.mode to 'none' (the cluster keeps the GPUs it has), or cluster.provider to 'kind'",
        )
    if spec.gpu.mode == "nvidia":
        return [RealGpuNodes(spec), RealGpuPlugin(spec), RealGpuLabels(spec), GpuHeal(spec), RealGpuProof(spec)]
    return [GpuNodes(spec), GpuPlugin(spec), GpuLabels(spec), GpuHeal(spec)]
