"""The simulated GPUs of a node: their UUIDs, and what follows from their model."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from lab.config import GpuSpec
from lab.config.gpu_models import GpuModel, model_of
from lab.gpu.pools import pool_of

DRIVER_VERSION = "580.65.06"
"""Driver version that NVML reports; NVIDIA's first release for CUDA 13.0."""

CUDA_VERSION = "13.0"

DEVICE_MAJOR = 195
"""Major number of NVIDIA's character devices (Documentation/admin-guide/devices.txt of the Linux kernel)."""

# A namespace of kailab's own: the same lab, node and index always give the same UUID, and no two GPUs share one.
_UUIDS = uuid.uuid5(uuid.NAMESPACE_DNS, "gpu.kailab")

# A domain that machines do not have: the device plugin looks its GPUs up in /sys/bus/pci, which is the machine's own.
_PCI_DOMAIN = 0xFF


@dataclass(frozen=True)
class SimulatedGpu:
    """One GPU of one node; ``used`` in MiB; ``xid`` is the XID error it reports (0: none), ``lost``: off the bus."""

    index: int
    uuid: str
    model: GpuModel
    pci_bus_id: str
    used: int = 0
    xid: int = 0
    lost: bool = False

    @property
    def minor(self) -> int:
        """Minor number of its device node, ``/dev/nvidia<minor>``."""
        return self.index

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def memory(self) -> int:
        """Memory in MiB."""
        return self.model.memory


def gpu_uuid(lab: str, node: str, index: int) -> str:
    """Return the UUID of a simulated GPU as NVML writes it; the same at every call."""
    return f"GPU-{uuid.uuid5(_UUIDS, f'{lab}/{node}/{index}')}"


def gpus_of(lab: str, node: str, gpu: GpuSpec) -> tuple[SimulatedGpu, ...]:
    """Return the GPUs of one node by index; none for a node outside all pools."""
    pool = pool_of(gpu, node)
    if pool is None:
        return ()
    model = model_of(pool.model, pool.memory)
    return tuple(
        SimulatedGpu(index, gpu_uuid(lab, node, index), model, f"{_PCI_DOMAIN:08X}:{index + 1:02X}:00.0")
        for index in range(pool.per_node)
    )
