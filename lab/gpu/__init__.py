"""GPUs of the lab's nodes: real ones, or simulated ones with everything above the driver real."""

from __future__ import annotations

import re

from lab.config import LabSpec
from lab.engine.step import Step
from lab.errors import SpecError
from lab.gpu.device_plugin import GpuPlugin
from lab.gpu.feature_labels import GpuLabels
from lab.gpu.nvidia.steps import real_gpu_steps
from lab.gpu.pools import pools_by_node
from lab.gpu.restart_recovery import GpuHeal, heal_reservations
from lab.gpu.simulated.devices import product_label
from lab.gpu.simulated.nodes import GpuNodes
from lab.session.context import LabContext

__all__ = ["GpuHeal", "GpuLabels", "GpuNodes", "GpuPlugin", "gpu_steps", "heal_reservations"]

_LABEL_VALUE = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"


def gpu_steps(spec: LabSpec) -> list[Step[LabContext]]:
    """The steps that give the lab its GPUs; none when it has none.

    ``auto`` counts as ``simulated``: the plan resolves it.

    Raises:
        SpecError: the GPUs asked for are not to be had on this provider or machine, or NVML or a node label
            cannot hold what describes them.
    """
    pools = pools_by_node(spec)
    if not pools:
        return []
    if spec.gpu.mode == "nvidia":
        return real_gpu_steps(spec)
    if spec.cluster.provider == "existing":
        raise SpecError(
            f"gpu.mode '{spec.gpu.mode}' on provider 'existing': simulated GPUs go into node containers that"
            " the lab made, and it changes no other nodes",
            fix="set gpu.mode to 'none' (the cluster keeps the GPUs it has), or cluster.provider to 'kind'",
        )
    for pool in pools.values():
        _refuse_what_does_not_fit(f"gpu.pools.{pool.name}.model" if pool.name else "gpu.model", pool.model)
    return [GpuNodes(spec), GpuPlugin(spec), GpuLabels(spec), GpuHeal(spec)]


def _refuse_what_does_not_fit(where: str, model: str) -> None:
    if not model.isprintable() or model != model.strip() or len(model.encode()) > 95:
        raise SpecError(
            f"{where} {model!r} is no product name: one line of up to 95 bytes, no blanks around it",
            fix="use a name as NVML gives it, such as 'NVIDIA H100 80GB HBM3'",
        )
    if not re.fullmatch(_LABEL_VALUE, product_label(model)):
        raise SpecError(
            f"{where} {model!r} would be the node label nvidia.com/gpu.product={product_label(model)!r},"
            " which Kubernetes refuses (1 to 63 of A-Z, a-z, 0-9 and '-_.', a letter or digit at both ends)",
            fix="use a name as NVML gives it, such as 'NVIDIA H100 80GB HBM3'",
        )
