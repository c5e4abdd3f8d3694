"""The doctor's findings about real GPUs: the strategy, its reason and the changes it needs."""

from __future__ import annotations

from collections.abc import Iterator

from lab.findings import Finding
from lab.host.check import CheckContext, fail, ok, skip, warn
from lab.host.nvidia.discovery import NvidiaFacts, discover
from lab.host.nvidia.strategies import AUTO, CDI_FIX, RUNTIME_FIX, choose_strategy, strategies

_GUIDE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"


def findings(ctx: CheckContext, strategy: str = AUTO) -> Iterator[Finding]:
    """Check the GPU path of this machine for the lab file's gpu.strategy."""
    if ctx.needs.gpu in ("none", "simulated"):
        yield skip(f"the lab file sets gpu.mode {ctx.needs.gpu}")
        return
    forced = ctx.needs.gpu == "nvidia"
    if not ctx.facts.gpu.usable:
        why = ctx.facts.gpu.why or "no device"
        if forced:
            yield fail(f"NVML: {why}", "install the NVIDIA driver, or set gpu.mode: simulated")
        else:
            yield skip(f"no NVIDIA GPU ({why}); GPUs will be simulated")
        return
    facts = discover(ctx.run, ctx.facts, engine=ctx.needs.engine, machine=ctx.machine)
    yield from strategy_findings(facts, strategy, forced=forced)


def strategy_findings(facts: NvidiaFacts, strategy: str, *, forced: bool) -> Iterator[Finding]:
    """Findings about GPUs that exist; ``forced`` if the lab file sets gpu.mode nvidia."""
    names = ", ".join(f"{gpu.name} ({gpu.memory_mib} MiB)" for gpu in facts.nvml.gpus)
    yield ok(f"{names}; driver {facts.nvml.driver}, CUDA {facts.nvml.cuda}")
    for gpu in facts.mig_gpus:
        yield warn(
            f"GPU {gpu.index} is in MIG mode ({len(gpu.slices)} slices) and is not passed to nodes",
            f"nvidia-smi -i {gpu.index} -mig 0 (only if the lab shall use it)",
        )
    choice = choose_strategy(facts, strategy)
    for name, reason in choice.refused.items():
        fix = _GUIDE if "toolkit" in reason else "no action needed if another strategy works"
        yield warn(f"{name}: {reason}", fix)
    if not choice.strategy:
        fix = "set gpu.mode: simulated" if forced else "no action needed: GPUs will be simulated"
        yield (fail if forced else warn)(f"real GPUs cannot be passed to nodes: {choice.why}", fix)
        return
    yield ok(f"passed to nodes by {choice.strategy} ({strategies()[choice.strategy].title})")
    if RUNTIME_FIX in choice.changes:
        what = f"Docker's default runtime is {facts.default_runtime}"
        if not facts.toolkit.mounts:
            what += ", and NVIDIA's runtime does not accept requests by mounts"
        yield fail(what, "run 'kailab up --yes' to set both; 'kailab down --host' restores both files", RUNTIME_FIX)
    if CDI_FIX in choice.changes:
        lines = facts.cdi.lacks(tuple(gpu.uuid for gpu in facts.gpus))
        yield fail(lines[0], "run 'kailab up --yes' to generate the spec with nvidia-ctk", CDI_FIX)
