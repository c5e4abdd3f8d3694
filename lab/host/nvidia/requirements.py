"""What a strategy asks of the machine. Each check says why the machine does not have it, or nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable

from lab.host.nvidia import engine_config
from lab.host.nvidia.discovery import NvidiaFacts

Requirement = Callable[[NvidiaFacts], str]


def linux(facts: NvidiaFacts) -> str:
    """WSL has /dev/dxg for all GPUs together and no /dev/nvidiaN: they cannot be shared out."""
    return "under WSL the GPUs cannot be given out one by one (there is no /dev/nvidia0)" if facts.kernel.wsl else ""


def gpus(facts: NvidiaFacts) -> str:
    """There is at least one whole GPU."""
    if facts.gpus:
        return ""
    if facts.cut_up:
        return "every GPU is in MIG mode, and slices are not passed to nodes (nvidia-smi -mig 0 ends it)"
    return f"NVML answers: {facts.nvml.why or 'no device'}"


def versions(facts: NvidiaFacts) -> str:
    """Libraries of another version than the loaded module: NVML error 18, until the next boot."""
    loaded, library = facts.kernel.version, facts.nvml.driver
    if loaded and library and loaded != library:
        return f"the kernel has driver {loaded} loaded and the libraries are of {library}: reboot"
    return ""


def devices(facts: NvidiaFacts) -> str:
    """Each GPU's device node and the control nodes exist; nvidia-uvm comes with the first CUDA program only."""
    missing = [f"/dev/{name}" for name in ("nvidiactl", "nvidia-uvm") if name not in facts.kernel.control]
    missing += [f"/dev/nvidia{gpu.minor}" for gpu in facts.gpus if gpu.minor not in facts.kernel.minors]
    return f"{', '.join(missing)} not there: nvidia-modprobe -c0 -u makes them" if missing else ""


def local_engine(facts: NvidiaFacts) -> str:
    """The engine runs on this machine itself: device nodes and files of another one are of no use."""
    engine = facts.engine
    if engine is None or engine.installed:
        return ""
    return f"{engine.name} runs elsewhere (a virtual machine or another host), which does not have these GPUs"


def rootful(facts: NvidiaFacts) -> str:
    """A rootless engine may not make device nodes (NVIDIA/nvkind issue 48)."""
    engine = facts.engine
    return f"{engine.name} is rootless and may not use devices" if engine and engine.rootless else ""


def docker(facts: NvidiaFacts) -> str:
    """Only Docker has a default runtime, which kind's containers get: kind cannot name one (kind issue 3164)."""
    name = facts.engine.name if facts.engine else facts.wanted_engine
    if name not in ("docker", "auto"):
        return f"kind cannot ask {name} for NVIDIA's runtime; Docker's default runtime can be it"
    if facts.engine and facts.engine.root_dir.startswith("/var/snap/"):
        return "Docker comes from a snap, whose configuration lies elsewhere and cannot run NVIDIA's runtime"
    return ""


def toolkit(facts: NvidiaFacts) -> str:
    """NVIDIA's container toolkit is installed on this machine, and its configuration can be read."""
    if facts.toolkit.missing:
        return f"the NVIDIA container toolkit is not installed ({', '.join(facts.toolkit.missing)} not found)"
    return facts.toolkit.broken


def toolkit_alone(facts: NvidiaFacts) -> str:
    """Before 1.18 the runtime does its work through nvidia-container-cli (mode legacy)."""
    if facts.toolkit.modern or facts.toolkit.cli:
        return ""
    return "the toolkit is older than 1.18 and nvidia-container-cli, which it then needs, is not installed"


def mode_for_mounts(facts: NvidiaFacts) -> str:
    """Mode cdi looks plain UUIDs up in a spec on disk; csv is for Tegra."""
    mode = facts.toolkit.mode
    if mode == "legacy" and not facts.toolkit.cli:
        return "the runtime is set to mode legacy, and nvidia-container-cli is not installed"
    return "" if mode in ("auto", "legacy", "jit-cdi") else f"the runtime is set to mode {mode}"


def mode_for_cdi(facts: NvidiaFacts) -> str:
    """Modes legacy and csv do not read CDI specs."""
    mode = facts.toolkit.mode
    return "" if mode in ("auto", "cdi", "jit-cdi") else f"the runtime is set to mode {mode}, which reads no CDI spec"


def runtime_free(facts: NvidiaFacts) -> str:
    """Docker's default runtime is one that NVIDIA's can stand in front of."""
    if facts.engine_broken:
        return facts.engine_broken
    if facts.default_runtime not in engine_config.REPLACED:
        return f"Docker's default runtime is {facts.default_runtime}, which the lab does not replace"
    return ""


def libraries(facts: NvidiaFacts) -> str:
    """The driver's libraries were found: without one of these nothing works in the node."""
    if missing := facts.files.missing:
        wanted = ", ".join(f"{name}.{facts.nvml.driver}" for name in missing)
        return f"neither ldconfig nor the toolkit knows {wanted}"
    return ""


_ALL: tuple[Requirement, ...] = (
    linux,
    gpus,
    versions,
    devices,
    local_engine,
    rootful,
    docker,
    toolkit,
    toolkit_alone,
    mode_for_mounts,
    mode_for_cdi,
    runtime_free,
    libraries,
)

REQUIREMENTS = {one.__name__.replace("_", "-"): one for one in _ALL}
"""By the name that strategies.toml uses."""
