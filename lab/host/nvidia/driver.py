"""The NVIDIA driver that the kernel has loaded, from /proc/driver/nvidia and /dev."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.host.machine import Machine

PROC = "/proc/driver/nvidia"

CONTROL = ("nvidiactl", "nvidia-uvm")
"""Device nodes that every CUDA program opens beside the GPU's own."""

_VERSION = re.compile(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", re.MULTILINE)
_MODIFY = re.compile(r"^ModifyDeviceFiles: (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class KernelDriver:
    """What the kernel says.

    Attributes:
        version: of the loaded module; empty when none is loaded.
        minors: the N of each /dev/nvidiaN that is there.
        control: names of the control device nodes that are there.
        modify: ModifyDeviceFiles of the module: with True NVML makes missing device nodes by itself, also in
            containers; None when the kernel does not say.
        wsl: Windows owns the GPUs; Linux sees /dev/dxg only.
    """

    version: str = ""
    minors: tuple[int, ...] = ()
    control: tuple[str, ...] = ()
    modify: bool | None = None
    wsl: bool = False


def look(machine: Machine) -> KernelDriver:
    """Read the kernel's own words; what is missing is an answer too."""
    version = _VERSION.search(machine.text(f"{PROC}/version"))
    modify = _MODIFY.search(machine.text(f"{PROC}/params"))
    dev = machine.path("/dev")
    names = {path.name for path in dev.glob("nvidia*")} if dev.is_dir() else set()
    minors = sorted(int(name[6:]) for name in names if re.fullmatch(r"nvidia\d+", name))
    return KernelDriver(
        version=version[1] if version else "",
        minors=tuple(minors),
        control=tuple(name for name in CONTROL if name in names),
        modify=modify[1] == "1" if modify else None,
        wsl=machine.path("/dev/dxg").exists() and not machine.path(PROC).exists(),
    )
