"""Requirements of strategies. Each check returns why the machine does not meet it, or an empty text."""

from __future__ import annotations

from collections.abc import Callable

from lab.host.docker_config import REPLACED_BY_NVIDIA
from lab.host.nvidia.discovery import NvidiaFacts

Requirement = Callable[[NvidiaFacts], str]


def linux(facts: NvidiaFacts) -> str:
    """Require Linux: WSL has one /dev/dxg for all GPUs and no /dev/nvidiaN, so it cannot pass on single ones."""
    return "WSL cannot pass on single GPUs (it has no /dev/nvidia0)" if facts.kernel.wsl else ""


def gpus(facts: NvidiaFacts) -> str:
    """Require at least one GPU that is not in MIG mode."""
    if facts.gpus:
        return ""
    if facts.mig_gpus:
        return "every GPU is in MIG mode, and slices are not passed to nodes ('nvidia-smi -mig 0' disables it)"
    return f"NVML: {facts.nvml.why or 'no device'}"


def versions(facts: NvidiaFacts) -> str:
    """Require libraries of the loaded module's version: others give NVML error 18 until the next boot."""
    loaded, library = facts.kernel.version, facts.nvml.driver
    if loaded and library and loaded != library:
        return f"the loaded driver is {loaded}, its libraries are {library}: reboot"
    return ""


def devices(facts: NvidiaFacts) -> str:
    """Require each GPU's device node and the control nodes; only the first CUDA program creates nvidia-uvm."""
    missing = [f"/dev/{name}" for name in ("nvidiactl", "nvidia-uvm") if name not in facts.kernel.control]
    missing += [f"/dev/nvidia{gpu.minor}" for gpu in facts.gpus if gpu.minor not in facts.kernel.minors]
    return f"{', '.join(missing)} missing: run 'nvidia-modprobe -c0 -u'" if missing else ""


def local_engine(facts: NvidiaFacts) -> str:
    """Require an engine on this machine: another one has neither its device nodes nor its files."""
    engine = facts.engine
    if engine is None or engine.installed:
        return ""
    return f"{engine.name} runs on another (or virtual) machine, which does not have these GPUs"


def rootful(facts: NvidiaFacts) -> str:
    """Require an engine with root rights: a rootless one may not create device nodes (NVIDIA/nvkind issue 48)."""
    engine = facts.engine
    return f"{engine.name} is rootless and may not use devices" if engine and engine.rootless else ""


def docker(facts: NvidiaFacts) -> str:
    """Require Docker, whose default runtime kind's containers get: kind cannot select one (kind issue 3164)."""
    name = facts.engine.name if facts.engine else facts.wanted_engine
    if name not in ("docker", "auto"):
        return f"kind cannot select NVIDIA's runtime in {name}; in Docker it can be the default runtime"
    if facts.engine and facts.engine.root_dir.startswith("/var/snap/"):
        return "Docker from a snap has its configuration elsewhere and cannot run NVIDIA's runtime"
    return ""


def toolkit(facts: NvidiaFacts) -> str:
    """Require NVIDIA's container toolkit with a readable configuration."""
    if facts.toolkit.missing:
        return f"the NVIDIA container toolkit is not installed ({', '.join(facts.toolkit.missing)} not found)"
    return facts.toolkit.broken


def toolkit_alone(facts: NvidiaFacts) -> str:
    """Require toolkit 1.18, or nvidia-container-cli, which older runtimes call (mode legacy)."""
    if facts.toolkit.modern or facts.toolkit.cli:
        return ""
    return "the toolkit is older than 1.18 and needs nvidia-container-cli, which is not installed"


def mode_for_mounts(facts: NvidiaFacts) -> str:
    """Require another mode than cdi, which looks up plain UUIDs in a spec on disk, and csv, which is for Tegra."""
    mode = facts.toolkit.mode
    if mode == "legacy" and not facts.toolkit.cli:
        return "the runtime is set to mode legacy, and nvidia-container-cli is not installed"
    return "" if mode in ("auto", "legacy", "jit-cdi") else f"the runtime is set to mode {mode}"


def mode_for_cdi(facts: NvidiaFacts) -> str:
    """Require a mode that reads CDI specs: legacy and csv do not."""
    mode = facts.toolkit.mode
    return "" if mode in ("auto", "cdi", "jit-cdi") else f"the runtime is set to mode {mode}, which reads no CDI spec"


def runtime_free(facts: NvidiaFacts) -> str:
    """Require a default runtime in Docker that NVIDIA's runtime may replace."""
    if facts.engine_broken:
        return facts.engine_broken
    if facts.default_runtime not in REPLACED_BY_NVIDIA:
        return f"Docker's default runtime is {facts.default_runtime}, which the lab does not replace"
    return ""


def libraries(facts: NvidiaFacts) -> str:
    """Require the driver's libraries: without them nothing works in the node."""
    if missing := facts.files.missing:
        names = ", ".join(f"{name}.{facts.nvml.driver}" for name in missing)
        return f"neither ldconfig nor the toolkit finds {names}"
    return ""


REQUIREMENTS: dict[str, Requirement] = {
    "linux": linux,
    "gpus": gpus,
    "versions": versions,
    "devices": devices,
    "local-engine": local_engine,
    "rootful": rootful,
    "docker": docker,
    "toolkit": toolkit,
    "toolkit-alone": toolkit_alone,
    "mode-for-mounts": mode_for_mounts,
    "mode-for-cdi": mode_for_cdi,
    "runtime-free": runtime_free,
    "libraries": libraries,
}
"""By name in strategies.toml."""
