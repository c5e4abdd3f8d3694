"""Step ``gpu-proof``: this machine, its nodes and their pods have the same GPUs, by UUID.

The device plugin's pods request all GPUs of their node, so NVML there reports what pods of that node can get. The
suites assert that a pod that requests one GPU sees one, and that a pod without a request sees none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lab.config import LabSpec
from lab.engine.step import Effect, Observed
from lab.errors import ApiFailed, StepFailed
from lab.gpu.device_plugin import NAMESPACE, ready_plugins
from lab.gpu.nodes import on_nodes
from lab.gpu.nvidia.claims import recorded
from lab.host.nvml import query
from lab.session.context import LabContext
from lab.session.step import LabStep

LIST_GPUS = ("nvidia-smi", "-L")

_UUID = re.compile(r"\(UUID: (GPU-[0-9a-f-]+)\)")

_MISSING = re.compile(r"executable file not found|no such file or directory", re.IGNORECASE)

Uuids = Mapping[str, frozenset[str]]
"""Name of a node → UUIDs seen there."""


@dataclass(frozen=True)
class SeenGpus:
    """UUIDs of the GPUs that were seen on this machine, in nodes and in pods."""

    host: frozenset[str]
    """By NVML of this machine."""
    shares: Uuids
    """By the journal."""
    pods: Mapping[str, frozenset[str] | None]
    """By NVML in a pod of each node; None if the pod has no nvidia-smi, no entry without a ready pod."""

    def differences(self) -> tuple[str, ...]:
        """One line for each disagreement."""
        lines = [
            f"{node} has {uuid}, which NVML does not report on this machine"
            for node, uuids in self.shares.items()
            for uuid in sorted(uuids - self.host)
        ]
        for node, seen in self.pods.items():
            uuids = self.shares[node]
            if seen is None:
                continue
            lines += [f"{node}: its pods do not see {uuid}" for uuid in sorted(uuids - seen)]
            lines += [f"{node}: its pods see {uuid} of another node" for uuid in sorted(seen - uuids)]
        return tuple(lines)

    @property
    def waiting(self) -> str:
        """Nodes without a ready pod."""
        return ", ".join(node for node in self.shares if node not in self.pods)

    @property
    def unchecked(self) -> str:
        """Nodes whose pods have no nvidia-smi."""
        return ", ".join(node for node, seen in self.pods.items() if seen is None)


@dataclass(frozen=True)
class RealGpuProof(LabStep):
    """UUIDs compared between this machine, its nodes and their pods."""

    spec: LabSpec
    needs: tuple[str, ...] = ("gpu-plugin",)
    id: str = "gpu-proof"
    title: str = "GPUs compared"

    def effects(self) -> tuple[Effect, ...]:
        return (Effect("cluster", f"compare UUIDs of machine, nodes and pods ({' '.join(LIST_GPUS)} in plugin pods)"),)

    def observe(self, ctx: LabContext) -> Observed:
        seen = look(ctx)
        if not seen.shares or seen.waiting:
            return Observed.absent()
        if lines := seen.differences():
            return Observed.drifted("GPUs differ", lines)
        count = sum(map(len, seen.shares.values()))
        rest = f"; not checked in pods: {seen.unchecked}" if seen.unchecked else ""
        return Observed.ready(f"{count} of the machine's {len(seen.host)}, each on one node{rest}")

    def apply(self, ctx: LabContext) -> None:
        """Nothing to change: ``verify`` compares."""
        ctx.progress("comparing UUIDs")

    def verify(self, ctx: LabContext) -> None:
        """Raise StepFailed unless machine, nodes and pods agree."""
        seen = look(ctx)
        if lines := seen.differences():
            raise StepFailed(
                "machine, nodes and pods do not have the same GPUs",
                evidence=lines,
                fix="kailab down, then kailab up; if they still differ, kailab logs",
            )
        if seen.waiting:
            raise StepFailed(f"the device plugin does not run on {seen.waiting}", fix="kailab status, then kailab up")
        if seen.unchecked:
            ctx.notice(f"GPUs in pods were not checked on {seen.unchecked}: the driver there has no nvidia-smi")


def look(ctx: LabContext) -> SeenGpus:
    """Read the UUIDs from this machine, the journal, and the plugin pod of each node. Raises ApiFailed."""
    shares = {node: frozenset(gpu.uuid for gpu in gpus) for node, gpus in recorded(ctx.journal).items()}
    cluster = ctx.cluster()
    ready = ready_plugins(cluster)

    def list_gpus(node: str) -> frozenset[str] | None:
        try:
            return frozenset(_UUID.findall(cluster.exec(ready[node], NAMESPACE, LIST_GPUS, timeout=30)))
        except ApiFailed as error:
            # a driver package without nvidia-smi; one that exists and fails has seen no GPU
            return None if _MISSING.search(str(error)) else frozenset()

    host = frozenset(gpu.uuid for gpu in query().gpus)
    return SeenGpus(host, shares, on_nodes((node for node in shares if node in ready), list_gpus))
