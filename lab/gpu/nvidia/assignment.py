"""Assigns the machine's real GPUs to the nodes of a lab, each to at most one node. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lab.config import LabSpec
from lab.errors import SpecError
from lab.gpu.pools import pools_by_node, short_name
from lab.host.nvml import GpuDevice

Shares = dict[str, tuple[GpuDevice, ...]]
"""Name of a node → its GPUs by index."""


def assign(spec: LabSpec, gpus: Sequence[GpuDevice]) -> Shares:
    """Assign GPUs (this machine's, by NVML) to the nodes of the pools, in mode ``nvidia``.

    GPUs named by index or UUID come first, then those asked for by number, lowest index first. ``all`` is an even
    share of the rest, which may be none. Raises SpecError if a named GPU does not exist or is named twice, or if the
    machine has too few.
    """
    if not gpus:
        raise SpecError(
            "gpu.mode 'nvidia': NVML reports no GPU on this machine",
            fix="lab doctor, or set gpu.mode to 'simulated' or 'auto'",
        )
    wanted = {node: pool.devices for node, pool in pools_by_node(spec).items()}
    shares: Shares = {}
    free = sorted(gpus, key=lambda gpu: gpu.index)

    def give(node: str, chosen: Iterable[GpuDevice]) -> None:
        shares[node] = tuple(sorted(chosen, key=lambda gpu: gpu.index))
        for gpu in shares[node]:
            free.remove(gpu)

    def refuse(node: str, what: str) -> SpecError:
        return SpecError(
            f"GPUs of {short_name(spec.name, node)}: {what}",
            evidence=[f"GPU {gpu.index}: {gpu.name} {gpu.uuid}: {_state(gpu, shares)}" for gpu in gpus],
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


def _state(gpu: GpuDevice, shares: Shares) -> str:
    holder = next((node for node, held in shares.items() if gpu in held), None)
    return f"assigned to {holder}" if holder else "free"
