"""GPU models by their real figures, read from gpu_models.toml."""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NVIDIA = 0x10DE
"""PCI vendor id, of devices and of their subsystems."""

_DEFAULT_COMPUTE = "8.0"

# NVML_DEVICE_ARCH_* in nvml.h, and the compute capabilities that each architecture begins with.
_ARCHITECTURES = (
    ("kepler", 2, (3, 0)),
    ("maxwell", 3, (5, 0)),
    ("pascal", 4, (6, 0)),
    ("volta", 5, (7, 0)),
    ("turing", 6, (7, 5)),
    ("ampere", 7, (8, 0)),
    ("ada", 8, (8, 9)),
    ("hopper", 9, (9, 0)),
    ("blackwell", 10, (10, 0)),
)


@dataclass(frozen=True)
class GpuModel:
    """One model.

    Attributes:
        short: what a lab file may call it; empty for a model that is not in the table.
        name: product name as NVML gives it.
        memory: MiB of one GPU.
        compute: CUDA compute capability, such as "8.0".
        arch: name of its architecture, such as "ampere".
        device: PCI device id; 0 where it is not known.
        subsystem: PCI subsystem id; 0 where it is not known.
        watts: default power limit; 0 where it is not known.
    """

    short: str
    name: str
    memory: int
    compute: str
    arch: str
    device: int = 0
    subsystem: int = 0
    watts: int = 0

    @property
    def arch_number(self) -> int:
        """The architecture as nvmlDeviceGetArchitecture numbers it."""
        return next(number for name, number, _ in _ARCHITECTURES if name == self.arch)

    @property
    def pci_id(self) -> int:
        """Device and vendor id as nvmlDeviceGetPciInfo packs them; device 0 where it is not known."""
        return self.device << 16 | NVIDIA

    @property
    def pci_subsystem_id(self) -> int:
        """Subsystem device and vendor id, packed alike; 0 where it is not known."""
        return self.subsystem << 16 | NVIDIA if self.subsystem else 0


@functools.cache
def gpu_models() -> tuple[GpuModel, ...]:
    """The table, in its order."""
    return tuple(GpuModel(**row) for row in _table()["models"])


def find_model(name: str) -> GpuModel | None:
    """The model of a short name or product name, upper or lower case; None when the table has none of it."""
    folded = name.casefold()
    return next((m for m in gpu_models() if folded in (m.short.casefold(), m.name.casefold())), None)


def model_of(name: str, memory: int) -> GpuModel:
    """The model of a product name with the memory (MiB) a lab file gives it.

    A model that the table lacks gets the compute capability of its family, or 8.0 where that is not known
    either, and no PCI ids.
    """
    if known := find_model(name):
        return GpuModel(**{**vars(known), "memory": memory})
    families = _table()["families"]
    found = (compute for word, compute in families if re.search(rf"\b{re.escape(word)}", name))
    compute = next(found, _DEFAULT_COMPUTE)
    return GpuModel("", name, memory, compute, architecture(compute))


def architecture(compute: str) -> str:
    """The architecture of a compute capability."""
    major, minor = (int(number) for number in compute.split("."))
    return next(name for name, _, first in reversed(_ARCHITECTURES) if first <= (major, minor))


@functools.cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("gpu_models.toml").read_text(encoding="utf-8"))
