"""Step ``gpu-nodes``: every GPU node has the simulated driver, and its runtime gives GPUs to containers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from lab.config import LabSpec
from lab.engine.step import Effect, Observed
from lab.errors import LabError, StepFailed
from lab.gpu.pool_labels import missing_lines, put_labels
from lab.gpu.pools import pools_by_node, said, short_name
from lab.gpu.simulated.devices import gpus_of
from lab.gpu.simulated.health import Health, failures_on, with_failures
from lab.gpu.simulated.node_files import CDI_SPEC, HOME, LIBRARY, NVML_CONFIG, RUNTIME_CONFIG, UNIT, NodeFiles, files_of
from lab.gpu.simulated.node_state import NodeState, differences, look
from lab.gpu.simulated.nvml_build import build_library, node_arch, source_digest
from lab.kai.names import GPU_PRESENT_LABEL
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.tools.container import Container
from lab.tools.process import Result

_INCOMING = f"{HOME}/incoming"

T = TypeVar("T")
R = TypeVar("R")


def gpu_nodes(ctx: LabContext) -> tuple[Container, ...]:
    """The node containers that have GPUs, oldest first."""
    names = pools_by_node(ctx.spec)
    return tuple(node for node in ctx.nodes() if node.name in names)


def each(act: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``act`` on all items at once; results in their order."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(act, items))


def failures(ctx: LabContext) -> dict[str, dict[int, Health]]:
    """The simulated GPUs that are not well, by node and index; every GPU node is named. Raises CommandFailed."""
    names = [node.name for node in gpu_nodes(ctx)]
    return dict(zip(names, each(lambda name: failures_on(ctx, name), names), strict=True))


@dataclass(frozen=True)
class GpuNodes(LabStep):
    """The simulated driver on the GPU nodes."""

    spec: LabSpec
    needs: tuple[str, ...] = ("cluster",)
    id: str = "gpu-nodes"
    title: str = "Simulated GPUs"

    def effects(self) -> tuple[Effect, ...]:
        where = "worker" if self.spec.cluster.workers else "control-plane node"
        pools = [pool for pool in self.spec.gpu_pools if pool.per_node]
        return (
            Effect("lab", f"compile {LIBRARY} from kind/nvml into the cache (kept for the next lab)"),
            *(
                Effect(
                    "node",
                    f"{pool.per_node} simulated GPUs ({pool.model}, {pool.memory} MiB) on each of {pool.nodes} {where}s"
                    f"{f' (pool {pool.name})' if pool.name else ''}",
                )
                for pool in pools
            ),
            Effect(
                "node", f"{LIBRARY}, {NVML_CONFIG}, {CDI_SPEC}, {RUNTIME_CONFIG}, device nodes by {UNIT} on these nodes"
            ),
            Effect("cluster", f"label these nodes {GPU_PRESENT_LABEL}=true, and with the labels of their pool"),
        )

    def observe(self, ctx: LabContext) -> Observed:
        """A GPU that was made to fail is a state, not drift: only ``lab gpu heal`` mends it."""
        nodes = gpu_nodes(ctx)
        if not nodes:
            return Observed.absent()
        if stopped := [node.name for node in nodes if node.state != "running"]:
            return Observed.drifted("node containers are stopped", [f"{name} is not running" for name in stopped])
        sick = failures(ctx)
        wanted = self._files(sick)
        states = dict(zip(wanted, each(lambda name: look(ctx, name, wanted[name]), list(wanted)), strict=True))
        if all(state.untouched for state in states.values()):
            return Observed.absent()
        diff = [f"{name}: {line}" for name, state in states.items() for line in differences(wanted[name], state)]
        diff += missing_lines(ctx, self.spec)
        if diff:
            return Observed.drifted("GPU nodes differ", diff)
        return Observed.ready("; failed: ".join([said(self.spec), *self._failed(sick)]))

    def apply(self, ctx: LabContext) -> None:
        """See Step.

        Raises:
            LabError: the node image lacks the NVIDIA container toolkit, or containerd the handler.
            CommandFailed: the library cannot be compiled, or a node refused the files.
        """
        wanted = self._files(failures(ctx))
        states = each(lambda name: look(ctx, name, wanted[name]), list(wanted))
        self._refuse_bare(dict(zip(wanted, states, strict=True)))
        library = build_library(ctx.run, ctx.progress)
        ctx.progress("writing GPUs into the nodes", 0, len(wanted))
        each(lambda name: _install(ctx, name, wanted[name].payload(library)), list(wanted))
        put_labels(ctx, self.spec)

    def verify(self, ctx: LabContext) -> None:
        """The nodes are as planned, and the toolkit itself resolves every GPU.

        Raises:
            StepFailed: they are not; the evidence says where.
        """
        seen = self.observe(ctx)
        if seen.diff:
            raise StepFailed(
                "the GPU nodes are not as planned after writing them",
                evidence=seen.diff,
                fix=f"docker exec NODE journalctl -u {UNIT}, then lab up again",
            )

        def ask(name: str) -> Result:
            return ctx.engine.exec(name, ["nvidia-ctk", "cdi", "list"], timeout=30)

        names = [node.name for node in gpu_nodes(ctx)]
        for name, listed in zip(names, each(ask, names), strict=True):
            wanted = [gpu.uuid for gpu in gpus_of(self.spec.name, name, self.spec.gpu)]
            if missing := [uuid for uuid in wanted if f"nvidia.com/gpu={uuid}" not in listed.out.split()]:
                raise StepFailed(
                    f"{name}: the NVIDIA container toolkit does not know {', '.join(missing)}",
                    evidence=[*listed.out.splitlines(), *listed.err.splitlines()],
                    fix=f"docker exec {name} cat {CDI_SPEC}",
                )

    def _files(self, sick: dict[str, dict[int, Health]]) -> dict[str, NodeFiles]:
        """The files each node should have, with the failures it has."""
        arch = node_arch()
        digest = source_digest(arch)
        return {
            name: files_of(
                name,
                with_failures(gpus_of(self.spec.name, name, self.spec.gpu), failed),
                digest,
                arch,
                self.spec.gpu.toolkit,
            )
            for name, failed in sick.items()
        }

    def _failed(self, sick: dict[str, dict[int, Health]]) -> list[str]:
        lines = [
            f"{short_name(self.spec.name, name)}/{index} ({health})"
            for name, failed in sick.items()
            for index, health in failed.items()
        ]
        return [", ".join(lines)] if lines else []

    def _refuse_bare(self, states: dict[str, NodeState]) -> None:
        lines = [f"{name}: {line}" for name, state in states.items() for line in state.lacks()]
        if lines:
            raise LabError(
                "the nodes of this cluster cannot take GPUs: they were made from a lab file without any",
                evidence=lines,
                fix=f"lab down --name {self.spec.name}, then lab up again",
            )


def _install(ctx: LabContext, node: str, payload: bytes) -> None:
    unpack = f"rm -rf {_INCOMING} && mkdir -p {_INCOMING} && tar -xf - -C {_INCOMING}"
    script = f"{unpack} && sh {_INCOMING}/install.sh && rm -rf {_INCOMING}"
    ctx.engine.exec(node, ["sh", "-c", script], stdin=payload, timeout=60)
