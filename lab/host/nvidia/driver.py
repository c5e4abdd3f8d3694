"""The loaded NVIDIA kernel module, from /proc/driver/nvidia and /dev."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.host.machine import Machine

PROC = "/proc/driver/nvidia"

CONTROL = ("nvidiactl", "nvidia-uvm")
"""Device nodes that every CUDA program opens in addition to the GPU's."""

_VERSION = re.compile(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", re.MULTILINE)
_MODIFY = re.compile(r"^ModifyDeviceFiles: (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class KernelDriver:
    """The module and its device nodes.

    Attributes:
        version: empty if no module is loaded.
        minors: the N of each existing /dev/nvidiaN.
        control: names of the existing control device nodes.
        modify: the module's ModifyDeviceFiles: if True, NVML creates missing device nodes, also in containers; None
            if unknown.
        wsl: Windows owns the GPUs, and Linux has /dev/dxg only.
    """

    version: str = ""
    minors: tuple[int, ...] = ()
    control: tuple[str, ...] = ()
    modify: bool | None = None
    wsl: bool = False


def read(machine: Machine) -> KernelDriver:
    """Read the module's files."""
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
