"""Step ``gpu-nodes``: every GPU node has the simulated driver, and its runtime gives GPUs to containers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from lab.engine.step import Effect, Observed
from lab.errors import LabError, StepFailed
from lab.parts.context import LabContext
from lab.parts.gpu.devices import gpus_of
from lab.parts.gpu.node_files import (
    CDI_SPEC,
    HOME,
    LIBRARY,
    NVML_CONFIG,
    RUNTIME_CONFIG,
    UNIT,
    NodeFiles,
    files_of,
)
from lab.parts.gpu.node_state import NodeState, differences, look
from lab.parts.gpu.nvml_library import build_library, node_arch, source_digest
from lab.spec import LabSpec
from lab.tools.container import Container
from lab.tools.shell import Result

PRESENT_LABEL = "nvidia.com/gpu.present"
"""Label of GPU nodes; the RuntimeClass and the device plugin select by it."""

_ROLE_LABEL = "io.x-k8s.kind.role"
_INCOMING = f"{HOME}/incoming"

T = TypeVar("T")
R = TypeVar("R")


def gpu_nodes(ctx: LabContext) -> tuple[Container, ...]:
    """The node containers that have GPUs: all workers, or the control planes where there are no workers."""
    role = "worker" if ctx.spec.cluster.workers else "control-plane"
    return tuple(node for node in ctx.nodes() if node.labels.get(_ROLE_LABEL) == role)


def each(act: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``act`` on all items at once; results in their order."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(act, items))


@dataclass(frozen=True)
class GpuNodes:
    """The simulated driver on the GPU nodes."""

    spec: LabSpec
    needs: tuple[str, ...] = ("cluster",)
    id: str = "gpu-nodes"
    title: str = "Simulated GPUs"

    def effects(self) -> tuple[Effect, ...]:
        """See Step."""
        gpu, count = self.spec.gpu, self.spec.cluster.workers or self.spec.cluster.control_planes
        where = "worker" if self.spec.cluster.workers else "control-plane node"
        return (
            Effect("lab", f"compile {LIBRARY} from kind/nvml into the cache (kept for the next lab)"),
            Effect(
                "node",
                f"{gpu.per_node} simulated GPUs ({gpu.model}, {gpu.memory} MiB) on each of {count} {where}s:"
                f" {LIBRARY}, {NVML_CONFIG}, {CDI_SPEC}, {RUNTIME_CONFIG}, device nodes by {UNIT}",
            ),
            Effect("cluster", f"label these nodes {PRESENT_LABEL}=true"),
        )

    def observe(self, ctx: LabContext) -> Observed:
        """See Step."""
        nodes = gpu_nodes(ctx)
        if not nodes:
            return Observed.absent()
        if stopped := [node.name for node in nodes if node.state != "running"]:
            return Observed.drifted(
                "node containers are stopped", [f"{name} is not running" for name in stopped]
            )
        wanted = self._files(nodes)
        states = dict(
            zip(wanted, each(lambda name: look(ctx, name, wanted[name]), list(wanted)), strict=True)
        )
        if all(state.untouched for state in states.values()):
            return Observed.absent()
        diff = [
            f"{name}: {line}" for name, state in states.items() for line in differences(wanted[name], state)
        ]
        diff += [f"{name}: label {PRESENT_LABEL}=true is missing" for name in self._unlabelled(ctx, wanted)]
        if diff:
            return Observed.drifted("GPU nodes differ", diff)
        return Observed.ready(f"{len(nodes)} × {self.spec.gpu.per_node} {self.spec.gpu.model}")

    def apply(self, ctx: LabContext) -> None:
        """See Step.

        Raises:
            LabError: the node image lacks the NVIDIA container toolkit, or containerd the handler.
            CommandFailed: the library cannot be compiled, or a node refused the files.
        """
        wanted = self._files(gpu_nodes(ctx))
        states = each(lambda name: look(ctx, name, wanted[name]), list(wanted))
        self._refuse_bare(dict(zip(wanted, states, strict=True)))
        library = build_library(ctx.run, ctx.progress)
        ctx.progress("writing GPUs into the nodes", 0, len(wanted))
        each(lambda name: _install(ctx, name, wanted[name].payload(library)), list(wanted))
        cluster = ctx.cluster()
        for name in self._unlabelled(ctx, wanted):
            cluster.patch("Node", name, {"metadata": {"labels": {PRESENT_LABEL: "true"}}})

    def verify(self, ctx: LabContext) -> None:
        """The nodes are as planned, and the toolkit itself resolves every GPU.

        Raises:
            StepFailed: they are not; the evidence says where.
        """
        seen = self.observe(ctx)
        if seen.diff:
            raise StepFailed(
                "the GPU nodes are not as planned after writing them", evidence=seen.diff,
                fix=f"docker exec NODE journalctl -u {UNIT}, then lab up again",
            )  # fmt: skip

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

    def undo(self, ctx: LabContext) -> None:
        """Goes with the node containers; nothing is outside them but the cache."""

    def _files(self, nodes: Sequence[Container]) -> dict[str, NodeFiles]:
        arch = node_arch()
        digest = source_digest(arch)
        return {
            node.name: files_of(node.name, gpus_of(self.spec.name, node.name, self.spec.gpu), digest, arch)
            for node in nodes
        }

    def _unlabelled(self, ctx: LabContext, wanted: dict[str, NodeFiles]) -> list[str]:
        labelled = {
            node["metadata"]["name"] for node in ctx.cluster().list("Node", labels=f"{PRESENT_LABEL}=true")
        }
        return [name for name in wanted if name not in labelled]

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
