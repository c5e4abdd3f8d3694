"""Which node has which of the machine's GPUs: decided when the cluster is made, and kept in the lab's journal.

Labs on one machine do not take each other's GPUs: what another lab's journal claims counts as taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from lab.config import LabSpec
from lab.engine.journal import Journal
from lab.errors import SpecError
from lab.gpu.nvidia.assignment import Shares, assign
from lab.host.nvidia.discovery import NvidiaFacts
from lab.host.nvml import GpuDevice
from lab.paths import LabPaths, lab_names, state_root
from lab.tools.lock import lock
from lab.tools.process import Runner

KIND = "gpu"
"""Kind of the journal's records; the name is the GPU's UUID."""


def recorded(journal: Journal) -> Shares:
    """The shares of a cluster that was made, or begun; empty when there is none. Raises LabError."""
    shares: dict[str, list[GpuDevice]] = {}
    for owned in journal.owned(KIND):
        facts = owned.facts
        gpu = GpuDevice(int(facts["index"]), int(facts["minor"]), owned.name, facts["model"], int(facts["memory"]))
        shares.setdefault(facts["node"], []).append(gpu)
    return {node: tuple(sorted(gpus, key=lambda gpu: gpu.index)) for node, gpus in shares.items()}


def recorded_strategy(journal: Journal) -> str:
    """The strategy by which the cluster's nodes got their GPUs; empty when they have none. Raises LabError."""
    return next((owned.facts.get("strategy", "") for owned in journal.owned(KIND)), "")


def record(journal: Journal, step: str, shares: Shares, strategy: str) -> None:
    """Write down who has what, before the nodes are made; what was written before and is not so any more goes."""
    claimed = {gpu.uuid for gpus in shares.values() for gpu in gpus}
    for owned in journal.owned(KIND):
        if owned.name not in claimed:
            journal.released(KIND, owned.name)
    for node, gpus in shares.items():
        for gpu in gpus:
            journal.owns(
                KIND,
                gpu.uuid,
                step,
                node=node,
                index=str(gpu.index),
                minor=str(gpu.minor),
                model=gpu.name,
                memory=str(gpu.memory_mib),
                strategy=strategy,
            )


def taken_by_others(lab: str) -> dict[str, str]:
    """UUID → name of the other lab here that has it. Raises LabError."""
    return {
        owned.name: name for name in lab_names() if name != lab for owned in Journal(LabPaths(name).journal).owned(KIND)
    }


def share_out(spec: LabSpec, facts: NvidiaFacts, taken: Mapping[str, str]) -> Shares:
    """The GPUs of each node that gets any, from those that are whole and that no other lab has.

    Raises:
        SpecError: there are too few, or one that is named cannot be had.
    """
    free = [gpu for gpu in facts.gpus if gpu.uuid not in taken]
    if not free:
        raise SpecError(
            "gpu.mode 'nvidia': no GPU of this machine is free",
            evidence=_why(facts, taken),
            fix="take the other lab down, or set gpu.mode to 'simulated'",
        )
    try:
        shares = assign(spec, free)
    except SpecError as error:
        raise SpecError(error.what, evidence=[*error.evidence, *_why(facts, taken)], fix=error.fix) from error
    return {node: gpus for node, gpus in shares.items() if gpus}


def _why(facts: NvidiaFacts, taken: Mapping[str, str]) -> list[str]:
    return [
        *(f"GPU {gpu.index} {gpu.uuid}: lab {taken[gpu.uuid]} has it" for gpu in facts.gpus if gpu.uuid in taken),
        *(f"GPU {gpu.index} {gpu.uuid}: in MIG mode" for gpu in facts.cut_up),
    ]


def claiming(run: Runner) -> AbstractContextManager[None]:
    """Be the only kailab process that shares GPUs out. Raises Interrupted: the run was cancelled meanwhile."""
    return lock(state_root() / "locks" / "gpus.lock", run.stopped)
