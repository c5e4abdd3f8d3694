"""The simulated GPUs of a node: what each is called, and what its model implies."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

from lab.spec import GpuSpec

DRIVER_VERSION = "580.65.06"
"""What NVML says the driver is; NVIDIA's first release for CUDA 13.0."""

CUDA_VERSION = "13.0"

DEVICE_MAJOR = 195
"""Major number of NVIDIA's character devices (Documentation/admin-guide/devices.txt of the Linux kernel)."""

# A name of kailab's own: the same lab, node and index always give the same UUID, and no two GPUs share one.
_UUIDS = uuid.uuid5(uuid.NAMESPACE_DNS, "gpu.kailab")

# A domain that machines do not have: the device plugin looks its GPUs up in /sys/bus/pci, which is the
# machine's own.
_PCI_DOMAIN = 0xFF


@dataclass(frozen=True)
class Model:
    """What is known of a GPU by its product name: compute capability, and PCI device id (0: not known)."""

    word: str
    compute: str
    device_id: int = 0


# First word that the product name contains. https://developer.nvidia.com/cuda-gpus and the PCI ID database.
_MODELS = (
    Model("GB300", "10.3"), Model("GB200", "10.0"), Model("B300", "10.3"), Model("B200", "10.0", 0x2901),
    Model("H200", "9.0", 0x2335), Model("H100", "9.0", 0x2330), Model("H20", "9.0", 0x2329),
    Model("GH200", "9.0", 0x2342), Model("L40S", "8.9", 0x26B9), Model("L40", "8.9", 0x26B5),
    Model("L4", "8.9", 0x27B8), Model("RTX 40", "8.9"), Model("Ada", "8.9"), Model("RTX 50", "12.0"),
    Model("Blackwell", "12.0"), Model("A100", "8.0", 0x20B0), Model("A800", "8.0"),
    Model("A30", "8.0", 0x20B7), Model("A10", "8.6", 0x2236), Model("A16", "8.6", 0x25B6),
    Model("A2", "8.6", 0x25B6), Model("A40", "8.6", 0x2235), Model("RTX A", "8.6"), Model("RTX 30", "8.6"),
    Model("T4", "7.5", 0x1EB8), Model("RTX 20", "7.5"), Model("Quadro RTX", "7.5"),
    Model("V100", "7.0", 0x1DB5), Model("P100", "6.0", 0x15F8), Model("P40", "6.1", 0x1B38),
    Model("P4", "6.1", 0x1BB3), Model("K80", "3.7", 0x102D),
)  # fmt: skip
_DEFAULT_MODEL = Model("", "8.0")


@dataclass(frozen=True)
class SimulatedGpu:
    """One GPU of one node; ``memory`` and ``used`` in MiB; ``xid`` is the XID error it shows (0: none)."""

    index: int
    uuid: str
    name: str
    memory: int
    compute: str
    pci_bus_id: str
    pci_id: int
    used: int = 0
    xid: int = 0

    @property
    def minor(self) -> int:
        """Minor number of its device node, ``/dev/nvidia<minor>``."""
        return self.index


def gpu_uuid(lab: str, node: str, index: int) -> str:
    """The UUID of a simulated GPU, as NVML writes it; the same at every call."""
    return f"GPU-{uuid.uuid5(_UUIDS, f'{lab}/{node}/{index}')}"


def model_of(name: str) -> Model:
    """What the product name implies; a name nobody knows counts as compute capability 8.0."""
    return next((model for model in _MODELS if re.search(rf"\b{model.word}", name)), _DEFAULT_MODEL)


def gpus_of(lab: str, node: str, spec: GpuSpec) -> tuple[SimulatedGpu, ...]:
    """The GPUs of one node, in the order of their index."""
    model = model_of(spec.model)
    return tuple(
        SimulatedGpu(
            index=index,
            uuid=gpu_uuid(lab, node, index),
            name=spec.model,
            memory=spec.memory,
            compute=model.compute,
            pci_bus_id=f"{_PCI_DOMAIN:08X}:{index + 1:02X}:00.0",
            pci_id=model.device_id << 16 | 0x10DE,
        )
        for index in range(spec.per_node)
    )


def product_label(model: str) -> str:
    """The product name as GPU feature discovery writes it into ``nvidia.com/gpu.product``.

    k8s-device-plugin v0.18.0, internal/lm/resource.go: other characters go, runs of blanks become one dash.
    """
    return "-".join(re.sub(r"[^A-Za-z0-9-_. ]", "", model).split())
