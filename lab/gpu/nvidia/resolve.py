"""What the lab file's section ``gpu`` becomes on this machine, and the GPUs that a new cluster takes."""

from __future__ import annotations

import platform
from collections.abc import Mapping

from lab.config import LabSpec
from lab.config.gpu import GpuPool
from lab.engine.journal import Journal
from lab.errors import HostNotReady, SpecError
from lab.gpu.nvidia.assignment import Shares
from lab.gpu.nvidia.claims import claiming, record, recorded, recorded_strategy, share_out, taken_by_others
from lab.gpu.nvidia.mounts import Mount, extra_mounts
from lab.gpu.pools import pools_by_node, short_name
from lab.host.nvidia.discovery import NvidiaFacts, discover_now
from lab.host.nvidia.strategies import AUTO, choose_mode, required_strategy
from lab.session.context import LabContext

WITHOUT_POOLS = "gpus"
"""Name of the pool that a lab gets which names none and has fewer GPUs than workers."""


def resolve_real(
    spec: LabSpec, facts: NvidiaFacts, held: Shares, held_by: str, taken: Mapping[str, str]
) -> tuple[LabSpec, tuple[str, ...]]:
    """Replace ``gpu.mode: auto`` and ``gpu.strategy: auto``; pure.

    A simulation is always called one, and real GPUs are taken only where they can be made to work.

    Args:
        spec: the lab file.
        facts: from ``discover``.
        held: what the lab's cluster has already (``recorded``); empty before it is made.
        held_by: the strategy by which it got them (``recorded_strategy``); ``auto`` does not change it any more.
        taken: GPUs of other labs (``taken_by_others``).

    Returns:
        The lab without these two ``auto``, and what a person must be told.

    Raises:
        HostNotReady: mode nvidia is asked for, and cannot be had on this machine.
        SpecError: the GPUs asked for are not there, or not free.
    """
    gpu = spec.gpu
    if gpu.mode in ("none", "simulated"):
        return spec, ()
    told: list[str] = []
    wanted = held_by if gpu.strategy == AUTO and held_by else gpu.strategy
    if gpu.mode == "auto" and not held:
        mode, said = choose_mode(facts, wanted)
        told += [said] if said else []
        if mode == "nvidia" and all(one.uuid in taken for one in facts.gpus):
            mode = "simulated"
            told = [f"GPUs are simulated: lab {', '.join(sorted(set(taken.values())))} has this machine's"]
        if mode != "nvidia":
            return spec.model_copy(update={"gpu": gpu.model_copy(update={"mode": mode})}), tuple(told)
    choice = required_strategy(facts, wanted)
    shares = held or share_out(spec, facts, taken)
    nodes = spec.cluster.workers or spec.cluster.control_planes
    changes: dict[str, object] = {"mode": "nvidia", "strategy": choice.strategy}
    if len(shares) < nodes and not gpu.pools:
        changes["pools"] = _narrowed(spec, len(shares))
        told.append(f"{len(shares)} of {nodes} workers get GPUs: there are no more")
    elif gpu.pools and (bare := _bare(spec, shares)):
        raise SpecError(
            f"no GPU is left for {', '.join(bare)}",
            evidence=[f"{node}: {', '.join(one.uuid for one in gpus)}" for node, gpus in shares.items()],
            fix="give these pools GPUs by devices, or leave them out",
        )
    told += [
        f"GPU {one.index} ({one.name}) is in MIG mode and is not passed to nodes; nvidia-smi -i {one.index} -mig 0"
        for one in facts.cut_up
    ]
    told += [f"GPU {one.index} belongs to lab {taken[one.uuid]}" for one in facts.gpus if one.uuid in taken]
    return spec.model_copy(update={"gpu": gpu.model_copy(update=changes)}), tuple(told)


def resolve_here(spec: LabSpec, facts: NvidiaFacts, journal: Journal) -> tuple[LabSpec, tuple[str, ...]]:
    """``resolve_real`` with what this lab's journal and the other labs' say. Raises as it does."""
    held, held_by = recorded(journal), recorded_strategy(journal)
    return resolve_real(spec, facts, held, held_by, taken_by_others(spec.name))


def _narrowed(spec: LabSpec, nodes: int) -> tuple[GpuPool, ...]:
    """One pool of the first ``nodes`` workers; the others have no GPUs."""
    if not spec.cluster.workers:
        raise SpecError(
            f"{spec.cluster.control_planes} control planes without workers, and GPUs for {nodes} of them",
            fix="set cluster.controlPlanes to 1, or give the lab workers",
        )
    return (GpuPool(name=WITHOUT_POOLS, workers=nodes),)


def _bare(spec: LabSpec, shares: Shares) -> list[str]:
    return [short_name(spec.name, node) for node in pools_by_node(spec) if node not in shares]


def claim(ctx: LabContext, step: str) -> dict[str, list[Mount]]:
    """Share GPUs out for the cluster that is about to be made, write that down, and say what each node mounts.

    The machine is looked at once more: its preparation may have changed it since the plan.

    Raises:
        HostNotReady: the strategy does not work on this machine.
        SpecError: the GPUs are not there any more, or another lab has taken them.
    """
    facts = discover_now(ctx.run, ctx.engine.name)
    choice = required_strategy(facts, ctx.spec.gpu.strategy)
    if choice.changes:
        raise HostNotReady(
            f"this machine is not prepared for gpu.strategy '{choice.strategy}', and the nodes would have no GPUs",
            evidence=[f"needed: {fix}" for fix in choice.changes],
            fix="lab up again; 'lab plan' shows what it changes on this machine",
        )
    with claiming(ctx.run):
        here = {gpu.uuid for gpu in facts.gpus}
        shares = recorded(ctx.journal)
        if not shares or not {gpu.uuid for gpus in shares.values() for gpu in gpus} <= here:
            shares = share_out(ctx.spec, facts, taken_by_others(ctx.spec.name))
        record(ctx.journal, step, shares, choice.strategy)
    arch = platform.machine()
    return {node: extra_mounts(choice.strategy, gpus, facts.files, arch) for node, gpus in shares.items()}
