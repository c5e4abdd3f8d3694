"""Step ``gpu-nodes``: the simulated driver on every GPU node, with a container runtime that injects GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.engine.step import Effect
from lab.errors import StepFailed
from lab.gpu.node_state import NodeState
from lab.gpu.nodes import GpuNodesStep, gpu_node_names, on_nodes, require_planned
from lab.gpu.pools import describe_gpus, short_name
from lab.gpu.simulated.devices import gpus_of
from lab.gpu.simulated.health import failures_in, failures_on, with_failures
from lab.gpu.simulated.node_files import CDI_SPEC, HOME, LIBRARY, NVML_CONFIG, RUNTIME_CONFIG, UNIT, NodeFiles, files_of
from lab.gpu.simulated.nvml_build import build_library, library_at_hand, node_arch, source_digest
from lab.kai.names import GPU_PRESENT_LABEL
from lab.session.context import LabContext

_INCOMING = f"{HOME}/incoming"
INSTALL = (
    f"rm -rf {_INCOMING} && mkdir -p {_INCOMING} && tar -xf - -C {_INCOMING}"
    f" && sh {_INCOMING}/install.sh && rm -rf {_INCOMING}"
)
"""Shell command of a node that installs the tar of ``NodeFiles.payload`` on its standard input."""


@dataclass(frozen=True)
class GpuNodes(GpuNodesStep[NodeFiles]):
    """The simulated driver on the GPU nodes. A failed GPU is not drift; ``kailab gpu heal`` heals it."""

    title: str = "Simulated GPUs"

    def effects(self) -> tuple[Effect, ...]:
        where = "worker" if self.spec.cluster.workers else "control-plane node"
        pools = [
            f"{pool.per_node} simulated GPUs ({pool.model}, {pool.memory} MiB) on each of {pool.nodes} {where}s"
            f"{f' (pool {pool.name})' if pool.name else ''}"
            for pool in self.spec.gpu_pools
            if pool.per_node
        ]
        files = f"{LIBRARY}, {NVML_CONFIG}, {CDI_SPEC}, {RUNTIME_CONFIG}, device nodes by {UNIT} on these nodes"
        return (
            Effect("lab", f"compile {LIBRARY} from kind/nvml into the cache (kept for the next lab)"),
            *(Effect("node", text) for text in (*pools, files)),
            Effect("cluster", f"label these nodes {GPU_PRESENT_LABEL}=true, and with the labels of their pool"),
        )

    def files(self, ctx: LabContext, nodes: Sequence[str]) -> dict[str, NodeFiles]:
        arch, gpu = node_arch(), self.spec.gpu
        digest = source_digest(arch)
        failures = on_nodes(nodes, lambda name: failures_on(ctx, name))
        gpus = {name: with_failures(gpus_of(self.spec.name, name, gpu), failures[name]) for name in nodes}
        return {name: files_of(name, gpus[name], digest, arch, gpu.toolkit) for name in nodes}

    def summary(self, files: Mapping[str, NodeFiles]) -> str:
        failed = [
            f"{short_name(self.spec.name, name)}/{index} ({health})"
            for name, wanted in files.items()
            for index, health in failures_in(wanted.texts[NVML_CONFIG]).items()
        ]
        return describe_gpus(self.spec) + (f"; failed: {', '.join(failed)}" if failed else "")

    def install(self, ctx: LabContext, files: Mapping[str, NodeFiles], states: Mapping[str, NodeState]) -> None:
        library = library_at_hand(ctx.supply) or build_library(ctx.run, ctx.progress)
        ctx.progress("writing GPUs to the nodes", 0, len(files))
        on_nodes(
            files,
            lambda name: ctx.engine.exec(name, ["sh", "-c", INSTALL], stdin=files[name].payload(library), timeout=60),
        )

    def verify(self, ctx: LabContext) -> None:
        """Raise StepFailed unless the nodes are as planned and the toolkit in them resolves every GPU."""
        require_planned(
            self.observe(ctx),
            "GPU nodes differ from the plan after kailab wrote their files",
            f"docker exec NODE journalctl -u {UNIT}, then kailab up again",
        )
        listed = on_nodes(
            gpu_node_names(ctx), lambda name: ctx.engine.exec(name, ["nvidia-ctk", "cdi", "list"], timeout=30)
        )
        for name, done in listed.items():
            wanted = [gpu.uuid for gpu in gpus_of(self.spec.name, name, self.spec.gpu)]
            if missing := [uuid for uuid in wanted if f"nvidia.com/gpu={uuid}" not in done.out.split()]:
                raise StepFailed(
                    f"{name}: the NVIDIA container toolkit does not find {', '.join(missing)}",
                    evidence=[*done.out.splitlines(), *done.err.splitlines()],
                    fix=f"docker exec {name} cat {CDI_SPEC}",
                )
