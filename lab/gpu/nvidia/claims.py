"""The GPUs that a lab's nodes got when its cluster was created, as the lab's journal records them.

Labs on one machine do not take each other's GPUs: those that another lab's journal claims are taken.
"""

from __future__ import annotations

from collections.abc import Mapping

from lab.config import LabSpec
from lab.engine.journal import Journal
from lab.errors import SpecError
from lab.gpu.nvidia.assignment import Shares, assign
from lab.host.nvidia.discovery import NvidiaFacts
from lab.host.nvml import GpuDevice
from lab.paths import LabPaths, lab_names

KIND = "gpu"
"""Kind of the journal's records; the name is the GPU's UUID."""


def recorded(journal: Journal) -> Shares:
    """Return the GPUs of the nodes of a created cluster; empty without one. Raises LabError."""
    shares: dict[str, list[GpuDevice]] = {}
    for owned in journal.owned(KIND):
        facts = owned.facts
        gpu = GpuDevice(int(facts["index"]), int(facts["minor"]), owned.name, facts["model"], int(facts["memory"]))
        shares.setdefault(facts["node"], []).append(gpu)
    return {node: tuple(sorted(gpus, key=lambda gpu: gpu.index)) for node, gpus in shares.items()}


def recorded_strategy(journal: Journal) -> str:
    """Return the strategy by which the nodes got their GPUs; empty if they have none. Raises LabError."""
    return next((owned.facts.get("strategy", "") for owned in journal.owned(KIND)), "")


def record(journal: Journal, step: str, shares: Shares, strategy: str) -> None:
    """Record the GPUs of each node before the nodes are created; outdated records are released."""
    claimed = {gpu.uuid for gpus in shares.values() for gpu in gpus}
    for owned in journal.owned(KIND):
        if owned.name not in claimed:
            journal.released(KIND, owned.name)
    for node, gpus in shares.items():
        for gpu in gpus:
            numbers = {"index": str(gpu.index), "minor": str(gpu.minor), "memory": str(gpu.memory_mib)}
            journal.owns(KIND, gpu.uuid, step, node=node, model=gpu.name, strategy=strategy, **numbers)


def taken_by_others(lab: str) -> dict[str, str]:
    """Return UUID → name of the other lab on this machine that has the GPU. Raises LabError."""
    return {
        owned.name: name for name in lab_names() if name != lab for owned in Journal(LabPaths(name).journal).owned(KIND)
    }


def share_out(spec: LabSpec, facts: NvidiaFacts, taken: Mapping[str, str]) -> Shares:
    """Return the GPUs of each node that gets any, from those outside MIG mode that no other lab has.

    Raises SpecError if too few are free, or if a named one is not.
    """
    reasons = [
        *(f"GPU {gpu.index} {gpu.uuid}: used by lab {taken[gpu.uuid]}" for gpu in facts.gpus if gpu.uuid in taken),
        *(f"GPU {gpu.index} {gpu.uuid}: in MIG mode" for gpu in facts.mig_gpus),
    ]
    free = [gpu for gpu in facts.gpus if gpu.uuid not in taken]
    if not free:
        raise SpecError(
            "gpu.mode 'nvidia': no GPU of this machine is free",
            evidence=reasons,
            fix="lab down the other lab, or set gpu.mode to 'simulated'",
        )
    try:
        shares = assign(spec, free)
    except SpecError as error:
        raise SpecError(error.what, evidence=[*error.evidence, *reasons], fix=error.fix) from error
    return {node: gpus for node, gpus in shares.items() if gpus}
