"""Resolves the lab file's section ``gpu`` on this machine, and claims the GPUs of a new cluster."""

from __future__ import annotations

import platform
from collections.abc import Mapping

from lab.config import LabSpec
from lab.config.gpu import GpuPool
from lab.engine.journal import Journal
from lab.errors import HostNotReady, SpecError
from lab.gpu.nvidia.claims import Shares, record, recorded, recorded_strategy, share_out, taken_by_others
from lab.gpu.nvidia.mounts import Mount, extra_mounts
from lab.gpu.pools import pools_by_node, short_name
from lab.host.nvidia.discovery import NvidiaFacts, discover_now
from lab.host.nvidia.strategies import AUTO, choose_mode, required_strategy
from lab.paths import state_root
from lab.session.context import LabContext
from lab.tools.lock import lock

_POOL = "gpus"
"""Name of the pool of a lab without pools that has fewer GPUs than workers."""


def resolve_real(
    spec: LabSpec, facts: NvidiaFacts, held: Shares, held_by: str, taken: Mapping[str, str]
) -> tuple[LabSpec, tuple[str, ...]]:
    """Replace ``gpu.mode: auto`` and ``gpu.strategy: auto``; returns the lab and notices for the user. Pure.

    ``held`` are the GPUs that the lab's cluster already has (``recorded``), and ``held_by`` their strategy, which
    ``auto`` keeps; ``taken`` are GPUs of other labs. ``auto`` becomes ``nvidia`` only where real GPUs can work, and a
    simulation is always called one. Raises HostNotReady if mode nvidia is set and cannot work on this machine, and
    SpecError if the GPUs do not exist or are not free.
    """
    gpu = spec.gpu
    if gpu.mode in ("none", "simulated"):
        return spec, ()
    notices: list[str] = []
    wanted = held_by if gpu.strategy == AUTO and held_by else gpu.strategy
    if gpu.mode == "auto" and not held:
        mode, reason = choose_mode(facts, wanted)
        notices += [reason] if reason else []
        if mode == "nvidia" and all(one.uuid in taken for one in facts.gpus):
            mode = "simulated"
            notices = [f"GPUs are simulated: lab {', '.join(sorted(set(taken.values())))} uses this machine's"]
        if mode != "nvidia":
            return spec.model_copy(update={"gpu": gpu.model_copy(update={"mode": mode})}), tuple(notices)
    choice = required_strategy(facts, wanted)
    shares = held or share_out(spec, facts, taken)
    nodes = spec.cluster.workers or spec.cluster.control_planes
    changes: dict[str, object] = {"mode": "nvidia", "strategy": choice.strategy}
    if len(shares) < nodes and not gpu.pools:
        if not spec.cluster.workers:
            raise SpecError(
                f"{nodes} control planes without workers cannot share {len(shares)} GPUs",
                fix="set cluster.controlPlanes to 1, or give the lab workers",
            )
        changes["pools"] = (GpuPool(name=_POOL, workers=len(shares)),)
        notices.append(f"only {len(shares)} of {nodes} workers get GPUs: this machine has no more")
    elif gpu.pools and (bare := [short_name(spec.name, node) for node in pools_by_node(spec) if node not in shares]):
        raise SpecError(
            f"no GPU is left for {', '.join(bare)}",
            evidence=[f"{node}: {', '.join(one.uuid for one in gpus)}" for node, gpus in shares.items()],
            fix="set devices of these pools, or remove the pools",
        )
    notices += [
        f"GPU {one.index} ({one.name}) is in MIG mode and is not passed to nodes; nvidia-smi -i {one.index} -mig 0"
        for one in facts.mig_gpus
    ]
    notices += [f"GPU {one.index} belongs to lab {taken[one.uuid]}" for one in facts.gpus if one.uuid in taken]
    return spec.model_copy(update={"gpu": gpu.model_copy(update=changes)}), tuple(notices)


def resolve_here(spec: LabSpec, facts: NvidiaFacts, journal: Journal) -> tuple[LabSpec, tuple[str, ...]]:
    """Call ``resolve_real`` with the claims in the journals of this and of other labs. Raises the same errors."""
    return resolve_real(spec, facts, recorded(journal), recorded_strategy(journal), taken_by_others(spec.name))


def claim(ctx: LabContext, step: str) -> dict[str, list[Mount]]:
    """Assign GPUs for a cluster that is about to be created, record them, and return the mounts of each node.

    It looks at the machine again, as host changes may have changed it since the plan. Raises HostNotReady if the
    strategy does not work on this machine, and SpecError if the GPUs are gone or taken by another lab.
    """
    facts = discover_now(ctx.run, ctx.engine.name)
    choice = required_strategy(facts, ctx.spec.gpu.strategy)
    if choice.changes:
        raise HostNotReady(
            f"this machine is not prepared for gpu.strategy '{choice.strategy}', so nodes would have no GPUs",
            evidence=[f"needed: {fix}" for fix in choice.changes],
            fix="kailab up again; 'kailab plan' shows the changes of this machine",
        )
    # One kailab process on this machine assigns GPUs at a time.
    with lock(state_root() / "locks" / "gpus.lock", ctx.run.stopped):
        here = {gpu.uuid for gpu in facts.gpus}
        shares = recorded(ctx.journal)
        if not shares or not {gpu.uuid for gpus in shares.values() for gpu in gpus} <= here:
            shares = share_out(ctx.spec, facts, taken_by_others(ctx.spec.name))
        record(ctx.journal, step, shares, choice.strategy)
    arch = platform.machine()
    return {node: extra_mounts(choice.strategy, gpus, facts.files, arch) for node, gpus in shares.items()}
