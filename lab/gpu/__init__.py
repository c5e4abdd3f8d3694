"""GPUs of the lab's nodes: real ones, or simulated ones with everything above the driver real."""

from __future__ import annotations

import re

from lab.config import LabSpec
from lab.engine.step import Step
from lab.errors import SpecError
from lab.gpu.device_plugin import GpuPlugin
from lab.gpu.feature_labels import GpuLabels
from lab.gpu.nvidia.steps import RealGpuLabels, RealGpuNodes, RealGpuPlugin
from lab.gpu.nvidia.verify import RealGpuProof
from lab.gpu.pools import pools_by_node
from lab.gpu.restart_recovery import GpuHeal
from lab.gpu.simulated.devices import product_label
from lab.gpu.simulated.nodes import GpuNodes
from lab.session.context import LabContext

__all__ = ["GpuHeal", "GpuLabels", "GpuNodes", "GpuPlugin", "gpu_steps"]


def gpu_steps(spec: LabSpec) -> list[Step[LabContext]]:
    """Return the steps that give the lab its GPUs. ``auto`` counts as ``simulated``: the plan resolves it.

    Raises SpecError if the provider does not allow it, or if NVML or a node label cannot hold a model's name.
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
    for pool in pools.values():
        _check_model(f"gpu.pools.{pool.name}.model" if pool.name else "gpu.model", pool.model)
    return [GpuNodes(spec), GpuPlugin(spec), GpuLabels(spec), GpuHeal(spec)]


def _check_model(key: str, model: str) -> None:
    label = product_label(model)
    if not model.isprintable() or model != model.strip() or len(model.encode()) > 95:
        problem = "a product name is one line of up to 95 bytes without leading or trailing spaces"
    elif not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", label):
        problem = (
            f"Kubernetes rejects the node label nvidia.com/gpu.product={label!r}"
            " (1 to 63 of A-Z, a-z, 0-9 and '-_.', a letter or digit at both ends)"
        )
    else:
        return
    raise SpecError(
        f"invalid {key} {model!r}: {problem}", fix="use a name as NVML reports it, such as 'NVIDIA H100 80GB HBM3'"
    )
