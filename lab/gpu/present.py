"""GPUs that an existing cluster offers: counted as what they are, whole GPUs, time-slices and MIG devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from lab.config import LabSpec
from lab.engine.step import Observed
from lab.errors import StepFailed
from lab.kai.names import GPU_RESOURCE, MIG_PREFIX
from lab.objects.views import NodeView
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.text import count

_SHARED = f"{GPU_RESOURCE}.shared"


def gpu_resources(node: NodeView) -> dict[str, int]:
    """GPU resource → number that the node offers to pods: whole GPUs, shared ones (time-slices), MIG devices."""
    return {
        name: int(amount)
        for name, amount in node.allocatable.items()
        if amount and (name in (GPU_RESOURCE, _SHARED) or name.startswith(MIG_PREFIX))
    }


def describe(nodes: Iterable[NodeView]) -> str:
    """The GPUs of nodes, such as ``2 nodes × 8 NVIDIA H100 80GB HBM3``; equal nodes together, empty without GPUs."""
    kinds: Counter[str] = Counter()
    for node in nodes:
        parts = []
        for name, number in sorted(gpu_resources(node).items()):
            product = node.gpu_product.replace("-", " ") or "GPUs"
            slices = f" in {node.gpu_replicas} time-slices each" if node.gpu_replicas > 1 else ""
            parts.append(f"{number} {product}{slices}" if name == GPU_RESOURCE else f"{number} {name}")
        if parts:
            kinds[" and ".join(parts)] += 1
    return ", ".join(f"{count(number, 'node')} × {kind}" for kind, number in kinds.items())


@dataclass(frozen=True)
class PresentGpus(LabStep):
    """The GPUs of the cluster; the lab changes neither nodes nor device plugin."""

    spec: LabSpec
    needs: tuple[str, ...] = ("network",)
    id: str = "gpus"
    title: str = "GPUs of the cluster"

    def observe(self, ctx: LabContext) -> Observed:
        found = describe(map(NodeView.of, ctx.cluster().list("Node")))
        return Observed.ready(found) if found else Observed.drifted("no node offers a GPU")

    def apply(self, ctx: LabContext) -> None:
        """Raise StepFailed: GPUs of an existing cluster are its owner's."""
        raise StepFailed(
            "no node of the cluster offers a GPU (nvidia.com/gpu)",
            fix="install NVIDIA's device plugin or GPU Operator, or set gpu.mode: none",
        )
