"""What the doctor says of real GPUs: the strategy, why, and what has to change for it."""

from __future__ import annotations

from collections.abc import Iterator

from lab.findings import Finding
from lab.host.check import Look, fail, ok, skip, warn
from lab.host.nvidia.discovery import NvidiaFacts, discover
from lab.host.nvidia.strategies import AUTO, CDI_FIX, RUNTIME_FIX, choose_strategy, strategies

_GUIDE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"


def findings(at: Look, strategy: str = AUTO) -> Iterator[Finding]:
    """Judge the GPU path of this machine.

    Args:
        at: what a check may look at; ``needs.gpu`` is the lab file's gpu.mode.
        strategy: the lab file's gpu.strategy.
    """
    if at.needs.gpu in ("none", "simulated"):
        yield skip(f"the lab file asks for gpu.mode {at.needs.gpu}")
        return
    forced = at.needs.gpu == "nvidia"
    if not at.facts.gpu.usable:
        why = at.facts.gpu.why or "no device"
        if forced:
            yield fail(f"NVML answers: {why}", "install the NVIDIA driver, or set gpu.mode: simulated")
        else:
            yield skip(f"no NVIDIA GPU ({why}): GPUs will be simulated")
        return
    yield from judge(discover(at.run, at.facts, engine=at.needs.engine, machine=at.machine), strategy, forced=forced)


def judge(found: NvidiaFacts, strategy: str, *, forced: bool) -> Iterator[Finding]:
    """The findings for facts; ``forced`` when the lab file names gpu.mode nvidia."""
    names = ", ".join(f"{gpu.name} ({gpu.memory_mib} MiB)" for gpu in found.nvml.gpus)
    yield ok(f"{names}; driver {found.nvml.driver}, CUDA {found.nvml.cuda}")
    for gpu in found.cut_up:
        yield warn(
            f"GPU {gpu.index} is in MIG mode ({len(gpu.slices)} slices), which is not passed to nodes",
            f"nvidia-smi -i {gpu.index} -mig 0, or leave it out",
        )
    choice = choose_strategy(found, strategy)
    for name, reason in choice.refused.items():
        help_with = _GUIDE if "toolkit" in reason else "nothing, if another strategy is taken"
        yield warn(f"{name}: {reason}", help_with)
    if not choice.strategy:
        instead = "set gpu.mode: simulated" if forced else "nothing: GPUs will be simulated"
        yield (fail if forced else warn)(f"real GPUs cannot be passed to nodes: {choice.why}", instead)
        return
    yield ok(f"nodes get them by {choice.strategy} ({strategies()[choice.strategy].title})")
    if RUNTIME_FIX in choice.changes:
        said = f"Docker's default runtime is {found.default_runtime}"
        if not found.toolkit.mounts:
            said += ", and NVIDIA's runtime does not accept requests by mounts"
        yield fail(said, "'lab up --yes' sets both and 'lab down --host' puts both files back", RUNTIME_FIX)
    if CDI_FIX in choice.changes:
        lines = found.cdi.lacks(tuple(gpu.uuid for gpu in found.gpus))
        yield fail(lines[0], "'lab up --yes' has nvidia-ctk write the spec", CDI_FIX)
