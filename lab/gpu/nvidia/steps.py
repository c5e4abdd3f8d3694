"""Steps ``gpu-nodes``, ``gpu-plugin`` and ``gpu-labels`` in mode nvidia."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.config.gpu_models import product_label
from lab.engine.step import Effect
from lab.errors import LabError, StepFailed
from lab.gpu.device_plugin import GpuPlugin, Offer, Offers
from lab.gpu.feature_labels import Expected, GpuLabels, Labels
from lab.gpu.node_state import NodeState
from lab.gpu.nodes import GpuNodesStep, on_nodes, require_planned
from lab.gpu.nvidia.claims import recorded
from lab.gpu.nvidia.node_state import CDI_SPEC, LIST, UNIT, RealFiles
from lab.gpu.pools import describe_gpus, short_name
from lab.host.nvml import GpuDevice, query
from lab.kai.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from lab.session.context import LabContext


@dataclass(frozen=True)
class RealGpuNodes(GpuNodesStep[RealFiles]):
    """The machine's GPUs in the nodes: every node has only its own, and a runtime that injects them.

    kind's nodes are privileged containers: each has every /dev/nvidiaN of the machine, whatever it asked for. So the
    device nodes of other nodes' GPUs are removed from all nodes at each boot, the control plane's too.
    """

    title: str = "Real GPUs"

    def effects(self) -> tuple[Effect, ...]:
        gpus = f"real GPUs by {self.spec.gpu.strategy}: {describe_gpus(self.spec)}"
        return (
            Effect("lab", f"{gpus}; the journal records the GPUs of each node"),
            Effect(
                "node",
                f"{LIST} and {UNIT} in every node: remove device nodes of other nodes' GPUs, keep NVML from creating"
                f" them again; {CDI_SPEC} and NVIDIA's runtime for the node's own GPUs",
            ),
        )

    every_node = True

    def files(self, ctx: LabContext, nodes: Sequence[str]) -> dict[str, RealFiles]:
        shares = recorded(ctx.journal)
        return {name: RealFiles.of(shares.get(name, ()), self.spec.gpu.toolkit) for name in nodes}

    def summary(self, files: Mapping[str, RealFiles]) -> str:
        held = [
            f"{short_name(self.spec.name, node)}: {len(wanted.gpus)} × "
            + ", ".join(dict.fromkeys(gpu.name for gpu in wanted.gpus))
            for node, wanted in files.items()
            if wanted.gpus
        ]
        return f"{'; '.join(held)} ({self.spec.gpu.strategy})"

    def install(self, ctx: LabContext, files: Mapping[str, RealFiles], states: Mapping[str, NodeState]) -> None:
        missing = {node: wanted.missing_programs(states[node]) for node, wanted in files.items() if wanted.gpus}
        for node, names in missing.items():
            for name in names:
                program = ctx.run.which(name)
                if program is None:
                    raise LabError(
                        f"{name} is missing on {node} and on this machine",
                        evidence=[f"needed in /usr/bin: {', '.join(RealFiles.programs)}"],
                        fix="install NVIDIA's container toolkit 1.18 or newer on this machine, then kailab up again",
                    )
                ctx.engine.copy_in(node, program, f"/usr/bin/{name}")
        ctx.progress("assigning GPUs to the nodes", 0, len(states))
        on_nodes(files, lambda name: ctx.engine.exec(name, ["sh", "-s"], stdin=files[name].installer(), timeout=120))

    def verify(self, ctx: LabContext) -> None:
        """Raise StepFailed unless the nodes have the GPUs in the journal, and this machine has each of these."""
        require_planned(
            self.observe(ctx),
            "nodes do not have the planned GPUs",
            f"docker exec NODE journalctl -u {UNIT}, then kailab up again",
        )
        here = {gpu.uuid for gpu in query().gpus}
        shares = recorded(ctx.journal)
        missing = [f"{node}: {gpu.uuid}" for node, gpus in shares.items() for gpu in gpus if gpu.uuid not in here]
        if missing:
            raise StepFailed(
                "nodes have GPUs that NVML does not report on this machine",
                evidence=missing,
                fix="nvidia-smi -L on this machine, then kailab down and kailab up",
            )


@dataclass(frozen=True)
class RealGpuPlugin(GpuPlugin):
    """RuntimeClass and device plugin for real GPUs.

    All strategies use the same unprivileged DaemonSet without hostNetwork: the node's NVIDIA runtime gives it device
    nodes and libraries, from wherever the node has them.
    """

    def offers(self, ctx: LabContext) -> Offers:
        """All GPUs of a node by the journal."""
        return {node: Offer(len(gpus)) for node, gpus in recorded(ctx.journal).items()}

    def config(self) -> list[object]:
        """Nothing: a node's GPUs stay the same as long as it exists."""
        return []


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
