"""GPU models with their real figures, from gpu_models.toml."""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NVIDIA = 0x10DE  # PCI vendor id, of devices and of their subsystems

_DEFAULT_COMPUTE = "8.0"

# names of NVML_DEVICE_ARCH_* in nvml.h, and the lowest compute capability of each architecture
_ARCHITECTURES = (
    ("kepler", (3, 0)),
    ("maxwell", (5, 0)),
    ("pascal", (6, 0)),
    ("volta", (7, 0)),
    ("turing", (7, 5)),
    ("ampere", (8, 0)),
    ("ada", (8, 9)),
    ("hopper", (9, 0)),
    ("blackwell", (10, 0)),
)


@dataclass(frozen=True)
class GpuModel:
    """One model; numbers that are not known are 0."""

    short: str  # short name for lab files; empty for a model that the table lacks
    name: str  # product name as reported by NVML
    memory: int  # MiB of one GPU
    compute: str  # CUDA compute capability, such as "8.0"
    arch: str  # architecture, such as "ampere"
    device: int = 0  # PCI device id
    subsystem: int = 0  # PCI subsystem id
    watts: int = 0  # default power limit

    @property
    def pci_id(self) -> int:
        """Device and vendor id, packed as in nvmlDeviceGetPciInfo."""
        return self.device << 16 | NVIDIA

    @property
    def pci_subsystem_id(self) -> int:
        """Subsystem device and vendor id, packed likewise; 0 if not known."""
        return self.subsystem << 16 | NVIDIA if self.subsystem else 0


@functools.cache
def gpu_models() -> tuple[GpuModel, ...]:
    """All models, in the order of the table."""
    return tuple(GpuModel(**row) for row in _table()["models"])


def find_model(name: str) -> GpuModel | None:
    """The model with a short name or product name, ignoring case; None if the table lacks it."""
    folded = name.casefold()
    return next((m for m in gpu_models() if folded in (m.short.casefold(), m.name.casefold())), None)


def model_of(name: str, memory: int) -> GpuModel:
    """The model of a product name with a lab file's memory in MiB.

    A model that the table lacks gets the compute capability of its family, or else 8.0, and no PCI ids.
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
    return next(name for name, first in reversed(_ARCHITECTURES) if first <= (major, minor))


def product_label(model: str) -> str:
    """Return the product name as GPU feature discovery writes it into ``nvidia.com/gpu.product``.

    It drops other characters and joins words by dashes (k8s-device-plugin v0.18.0, internal/lm/resource.go).
    """
    return "-".join(re.sub(r"[^A-Za-z0-9-_. ]", "", model).split())


@functools.cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("gpu_models.toml").read_text(encoding="utf-8"))
