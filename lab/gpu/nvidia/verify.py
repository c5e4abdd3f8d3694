"""Step ``gpu-proof``: the GPUs of the machine, of its nodes and of their pods are the same ones, by their UUIDs.

The device plugin's pods ask for all GPUs of their node, so what NVML tells there is what pods of that node can get.
That a pod which asks for one sees one, and a pod which asks for none sees none, is what the suites assert.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lab.config import LabSpec
from lab.engine.step import Effect, Observed
from lab.errors import ApiFailed, StepFailed
from lab.gpu.device_plugin import NAMESPACE, SELECTOR
from lab.gpu.nvidia.claims import recorded
from lab.gpu.simulated.nodes import each
from lab.host.nvml import query
from lab.objects.views import PodView
from lab.session.context import LabContext
from lab.session.step import LabStep

LIST_GPUS = ("nvidia-smi", "-L")

_UUID = re.compile(r"\(UUID: (GPU-[0-9a-f-]+)\)")

_MISSING = re.compile(r"executable file not found|no such file or directory", re.IGNORECASE)

Uuids = Mapping[str, frozenset[str]]
"""Name of a node → UUIDs seen there."""


def uuids_in(text: str) -> frozenset[str]:
    """The UUIDs in what ``nvidia-smi -L`` printed."""
    return frozenset(_UUID.findall(text))


@dataclass(frozen=True)
class Sight:
    """Which GPUs were seen where.

    Attributes:
        host: by NVML on the machine.
        shares: what each node should have.
        pods: what NVML says in a pod of each node; nodes whose pod has no nvidia-smi to ask are left out.
        waiting: nodes that have no running pod to ask.
    """

    host: frozenset[str]
    shares: Uuids
    pods: Uuids
    waiting: tuple[str, ...] = ()

    def differences(self) -> tuple[str, ...]:
        """Where these do not agree, a line each."""
        lines = [
            f"{node} has {uuid}, which this machine does not know"
            for node, uuids in self.shares.items()
            for uuid in sorted(uuids - self.host)
        ]
        for node, seen in self.pods.items():
            uuids = self.shares[node]
            lines += [f"{node}: its pods do not see {uuid}" for uuid in sorted(uuids - seen)]
            lines += [f"{node}: its pods see {uuid}, which is not the node's" for uuid in sorted(seen - uuids)]
        return tuple(lines)

    @property
    def silent(self) -> tuple[str, ...]:
        """Nodes whose pods could not be asked."""
        return tuple(node for node in self.shares if node not in self.pods and node not in self.waiting)


@dataclass(frozen=True)
class RealGpuProof(LabStep):
    """UUIDs compared between the machine, its nodes and their pods."""

    spec: LabSpec
    needs: tuple[str, ...] = ("gpu-plugin",)
    id: str = "gpu-proof"
    title: str = "GPUs compared"

    def effects(self) -> tuple[Effect, ...]:
        return (Effect("cluster", f"compare UUIDs of machine, nodes and pods ({' '.join(LIST_GPUS)} in plugin pods)"),)

    def observe(self, ctx: LabContext) -> Observed:
        sight = look(ctx)
        if not sight.shares or sight.waiting:
            return Observed.absent()
        if lines := sight.differences():
            return Observed.drifted("GPUs differ", lines)
        count = sum(map(len, sight.shares.values()))
        rest = f"; not asked in pods: {', '.join(sight.silent)}" if sight.silent else ""
        return Observed.ready(f"{count} of the machine's {len(sight.host)}, each on one node{rest}")

    def apply(self, ctx: LabContext) -> None:
        """Nothing is made: ``verify`` compares."""
        ctx.progress("comparing UUIDs")

    def verify(self, ctx: LabContext) -> None:
        """Raise StepFailed unless machine, nodes and pods agree. A driver without nvidia-smi is said so."""
        sight = look(ctx)
        if lines := sight.differences():
            raise StepFailed(
                "machine, nodes and pods do not have the same GPUs",
                evidence=lines,
                fix="lab down, then lab up; if it stays so, lab logs",
            )
        if sight.waiting:
            raise StepFailed(
                f"the device plugin does not run on {', '.join(sight.waiting)}", fix="lab status, then lab up again"
            )
        if sight.silent:
            ctx.notice(f"no pod could be asked for its GPUs on {', '.join(sight.silent)}: it has no nvidia-smi")


def look(ctx: LabContext) -> Sight:
    """Ask the machine, the journal, and the device plugin's pod of each node. Raises ApiFailed."""
    shares = {node: frozenset(gpu.uuid for gpu in gpus) for node, gpus in recorded(ctx.journal).items()}
    cluster = ctx.cluster()
    pods = [PodView.of(pod) for pod in cluster.list("Pod", NAMESPACE, labels=SELECTOR)]
    ready = {pod.node: pod.name for pod in pods if pod.ready and not pod.deleting}

    def ask(node: str) -> frozenset[str] | None:
        try:
            return uuids_in(cluster.exec(ready[node], NAMESPACE, LIST_GPUS, timeout=30))
        except ApiFailed as error:
            # a driver package without nvidia-smi; one that is there and fails has seen no GPU
            return None if _MISSING.search(str(error)) else frozenset()

    asked = [node for node in shares if node in ready]
    answers = dict(zip(asked, each(ask, asked), strict=True))
    return Sight(
        host=frozenset(gpu.uuid for gpu in query().gpus),
        shares=shares,
        pods={node: seen for node, seen in answers.items() if seen is not None},
        waiting=tuple(node for node in shares if node not in ready),
    )
