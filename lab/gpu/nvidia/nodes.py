"""Step ``gpu-nodes`` in mode nvidia: every node has its own real GPUs and no other, and its runtime hands them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.config import LabSpec
from lab.engine.step import Effect, Observed
from lab.errors import LabError, StepFailed
from lab.gpu.nvidia.assignment import Shares
from lab.gpu.nvidia.claims import recorded
from lab.gpu.nvidia.node_state import CDI_SPEC, LIST, PROGRAMS, UNIT, RealFiles, RealState, differences, look
from lab.gpu.pool_labels import missing_lines, put_labels
from lab.gpu.pools import pools_by_node, said, short_name
from lab.gpu.simulated.nodes import each
from lab.host.nvml import GpuDevice, query
from lab.session.context import LabContext
from lab.session.step import LabStep


@dataclass(frozen=True)
class RealGpuNodes(LabStep):
    """The machine's GPUs in the nodes.

    kind's nodes are privileged containers: each has every /dev/nvidiaN of the machine, whatever it asked for. So all
    nodes are treated, the control plane too: device nodes of other nodes' GPUs go, at each boot.
    """

    spec: LabSpec
    needs: tuple[str, ...] = ("cluster",)
    id: str = "gpu-nodes"
    title: str = "Real GPUs"

    def effects(self) -> tuple[Effect, ...]:
        return (
            Effect("lab", f"real GPUs by {self.spec.gpu.strategy}: {said(self.spec)}; who has which is in the journal"),
            Effect(
                "node",
                f"{LIST} and {UNIT} in every node: device nodes of other nodes' GPUs removed, NVML kept from making"
                f" them again; {CDI_SPEC} and NVIDIA's runtime for the node's own",
            ),
        )

    def observe(self, ctx: LabContext) -> Observed:
        nodes = ctx.nodes()
        if not nodes:
            return Observed.absent()
        if stopped := [node.name for node in nodes if node.state != "running"]:
            return Observed.drifted("node containers are stopped", [f"{name} is not running" for name in stopped])
        shares = recorded(ctx.journal)
        states = self._look(ctx, shares)
        if all(state.untouched for state in states.values()):
            return Observed.absent()
        diff = [
            f"{name}: {line}"
            for name, state in states.items()
            for line in differences(self._files(shares.get(name, ())), shares.get(name, ()), state)
        ]
        diff += missing_lines(ctx, self.spec)
        if diff:
            return Observed.drifted("GPU nodes differ", diff)
        held = [f"{short_name(self.spec.name, node)}: {_told(gpus)}" for node, gpus in shares.items()]
        return Observed.ready(f"{'; '.join(held)} ({self.spec.gpu.strategy})")

    def apply(self, ctx: LabContext) -> None:
        """See Step.

        Raises:
            LabError: the nodes were made without real GPUs, or have no toolkit and this machine neither.
            CommandFailed: a node could not be prepared; the evidence is what its unit said.
        """
        shares = recorded(ctx.journal)
        states = self._look(ctx, shares)
        self._refuse_bare(shares, states)
        self._bring_toolkit(ctx, {name: states[name] for name in shares if name in states})
        ctx.progress("giving the nodes their GPUs", 0, len(states))

        def prepare(name: str) -> None:
            script = self._files(shares.get(name, ())).installer()
            ctx.engine.exec(name, ["sh", "-s"], stdin=script, timeout=120)

        each(prepare, list(states))
        put_labels(ctx, self.spec)

    def verify(self, ctx: LabContext) -> None:
        """The nodes have what the journal says, and the machine knows each of these GPUs.

        Raises:
            StepFailed: they do not; the evidence says where.
        """
        seen = self.observe(ctx)
        if seen.diff:
            raise StepFailed(
                "the nodes do not have the GPUs they should",
                evidence=seen.diff,
                fix=f"docker exec NODE journalctl -u {UNIT}, then lab up again",
            )
        here = {gpu.uuid for gpu in query().gpus}
        shares = recorded(ctx.journal)
        strange = [f"{node}: {gpu.uuid}" for node, gpus in shares.items() for gpu in gpus if gpu.uuid not in here]
        if strange:
            raise StepFailed(
                "nodes have GPUs that this machine does not know",
                evidence=strange,
                fix="nvidia-smi -L on this machine, then lab down and lab up",
            )

    def _files(self, gpus: tuple[GpuDevice, ...]) -> RealFiles:
        return RealFiles.of(gpus, self.spec.gpu.toolkit)

    def _look(self, ctx: LabContext, shares: Shares) -> dict[str, RealState]:
        names = [node.name for node in ctx.nodes()]
        states = each(lambda name: look(ctx, name, self._files(shares.get(name, ()))), names)
        return dict(zip(names, states, strict=True))

    def _refuse_bare(self, shares: Shares, states: Mapping[str, RealState]) -> None:
        lines = [f"{name}: no GPU was given to it" for name in pools_by_node(self.spec) if name not in shares]
        lines += [
            f"{name}: containerd has no runtime handler 'nvidia'"
            for name in shares
            if name in states and not states[name].handler
        ]
        if lines:
            raise LabError(
                "the nodes of this cluster cannot take GPUs: they were made from a lab file without real ones",
                evidence=lines,
                fix=f"lab down --name {self.spec.name}, then lab up again",
            )

    def _bring_toolkit(self, ctx: LabContext, states: Mapping[str, RealState]) -> None:
        """Copy the toolkit's programs in from this machine where the node image did not bring them."""
        for node, state in states.items():
            for name in state.missing_programs:
                program = ctx.run.which(name)
                if program is None:
                    raise LabError(
                        f"{node} has no {name}, and neither has this machine",
                        evidence=[f"needed in /usr/bin: {', '.join(PROGRAMS)}"],
                        fix="install NVIDIA's container toolkit 1.18 or newer on this machine, then lab up again",
                    )
                ctx.engine.copy_in(node, program, f"/usr/bin/{name}")


def _told(gpus: tuple[GpuDevice, ...]) -> str:
    names = dict.fromkeys(gpu.name for gpu in gpus)
    return f"{len(gpus)} × {', '.join(names)}"
