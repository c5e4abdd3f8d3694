"""Real GPUs of the nodes: assigned when a cluster is created, each to one node, and recorded in the lab's journal.

Labs on one machine do not take each other's GPUs: those that another lab's journal claims are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lab.config import LabSpec
from lab.engine.journal import Journal
from lab.errors import SpecError
from lab.gpu.pools import pools_by_node, short_name
from lab.host.nvidia.discovery import NvidiaFacts
from lab.host.nvml import GpuDevice
from lab.paths import LabPaths, lab_names

KIND = "gpu"
"""Kind of the journal's records; the name is the GPU's UUID."""

Shares = dict[str, tuple[GpuDevice, ...]]
"""Name of a node → its GPUs by index."""


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
            fix="kailab down the other lab, or set gpu.mode to 'simulated'",
        )
    try:
        shares = assign(spec, free)
    except SpecError as error:
        raise SpecError(error.what, evidence=[*error.evidence, *reasons], fix=error.fix) from error
    return {node: gpus for node, gpus in shares.items() if gpus}


def assign(spec: LabSpec, gpus: Sequence[GpuDevice]) -> Shares:
    """Assign GPUs (this machine's, by NVML) to the nodes of the pools, in mode ``nvidia``.

    GPUs named by index or UUID come first, then those asked for by number, lowest index first. ``all`` is an even
    share of the rest, which may be none. Raises SpecError if a named GPU does not exist or is named twice, or if the
    machine has too few.
    """
    if not gpus:
        raise SpecError(
            "gpu.mode 'nvidia': NVML reports no GPU on this machine",
            fix="kailab doctor, or set gpu.mode to 'simulated' or 'auto'",
        )
    wanted = {node: pool.devices for node, pool in pools_by_node(spec).items()}
    shares: Shares = {}
    free = sorted(gpus, key=lambda gpu: gpu.index)

    def give(node: str, chosen: Iterable[GpuDevice]) -> None:
        shares[node] = tuple(sorted(chosen, key=lambda gpu: gpu.index))
        for gpu in shares[node]:
            free.remove(gpu)

    def refuse(node: str, what: str) -> SpecError:
        holders = {gpu.uuid: f"assigned to {holder}" for holder, held in shares.items() for gpu in held}
        return SpecError(
            f"GPUs of {short_name(spec.name, node)}: {what}",
            evidence=[f"GPU {gpu.index}: {gpu.name} {gpu.uuid}: {holders.get(gpu.uuid, 'free')}" for gpu in gpus],
            fix="correct gpu.devices or the devices of its pool; 'nvidia-smi -L' lists the machine's GPUs",
        )

    for node, devices in wanted.items():
        if isinstance(devices, tuple):
            chosen = []
            for word in devices:
                found = next((gpu for gpu in gpus if word in (gpu.index, gpu.uuid)), None)
                if found is None:
                    raise refuse(node, f"this machine has no GPU {word}")
                if found not in free or found in chosen:
                    raise refuse(node, f"GPU {word} is already assigned")
                chosen.append(found)
            give(node, chosen)
    for node, devices in wanted.items():
        if isinstance(devices, int):
            if len(free) < devices:
                raise refuse(node, f"{devices} are requested, and {len(free)} of {len(gpus)} are left")
            give(node, free[:devices])
    rest = [node for node, devices in wanted.items() if devices == "all"]
    for at, node in enumerate(rest):
        left = len(rest) - at
        give(node, free[: -(-len(free) // left)])
    return {node: shares[node] for node in wanted}
