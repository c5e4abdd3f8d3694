"""Step ``gpu-nodes`` in mode nvidia: every node has only its own real GPUs, and a runtime that injects them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.engine.step import Effect
from lab.errors import LabError, StepFailed
from lab.gpu.node_state import NodeState
from lab.gpu.nodes import GpuNodesStep, on_nodes, require_planned
from lab.gpu.nvidia.claims import recorded
from lab.gpu.nvidia.node_state import CDI_SPEC, LIST, UNIT, RealFiles
from lab.gpu.pools import describe_gpus, short_name
from lab.host.nvml import query
from lab.session.context import LabContext


@dataclass(frozen=True)
class RealGpuNodes(GpuNodesStep[RealFiles]):
    """The machine's GPUs in the nodes.

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
        for node, wanted in files.items():
            for name in wanted.missing_programs(states[node]) if wanted.gpus else ():
                _copy_program(ctx, node, name)
        ctx.progress("assigning GPUs to the nodes", 0, len(states))
        on_nodes(files, lambda name: ctx.engine.exec(name, ["sh", "-s"], stdin=files[name].installer(), timeout=120))

    def verify(self, ctx: LabContext) -> None:
        """Raise StepFailed unless the nodes have the GPUs in the journal, and this machine has each of these."""
        require_planned(
            self.observe(ctx),
            "nodes do not have the planned GPUs",
            f"docker exec NODE journalctl -u {UNIT}, then lab up again",
        )
        here = {gpu.uuid for gpu in query().gpus}
        shares = recorded(ctx.journal)
        missing = [f"{node}: {gpu.uuid}" for node, gpus in shares.items() for gpu in gpus if gpu.uuid not in here]
        if missing:
            raise StepFailed(
                "nodes have GPUs that NVML does not report on this machine",
                evidence=missing,
                fix="nvidia-smi -L on this machine, then lab down and lab up",
            )


def _copy_program(ctx: LabContext, node: str, name: str) -> None:
    """Copy a program of the toolkit from this machine, as the node image lacks it."""
    program = ctx.run.which(name)
    if program is None:
        raise LabError(
            f"{name} is missing on {node} and on this machine",
            evidence=[f"needed in /usr/bin: {', '.join(RealFiles.programs)}"],
            fix="install NVIDIA's container toolkit 1.18 or newer on this machine, then lab up again",
        )
    ctx.engine.copy_in(node, program, f"/usr/bin/{name}")
