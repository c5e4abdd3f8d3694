"""Queries NVML; the only importer of ``pynvml`` (distribution nvidia-ml-py)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class GpuDevice:
    """One GPU as NVML reports it.

    Attributes:
        index: by PCI address; it changes when GPUs are added or hidden.
        minor: the N of /dev/nvidiaN, which may differ from ``index``; -1 without a device node (WSL).
        uuid: ``GPU-…``, the same on every machine and after every boot.
        name: product name.
        memory_mib: total memory.
        mig: whether MIG mode is enabled, which partitions the GPU.
        slices: UUIDs of its MIG devices.
    """

    index: int
    minor: int
    uuid: str
    name: str
    memory_mib: int
    mig: bool = False
    slices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Nvml:
    """NVML's answer; without one, ``why`` is NVML's error message."""

    driver: str = ""
    cuda: str = ""
    gpus: tuple[GpuDevice, ...] = ()
    why: str = ""

    @property
    def usable(self) -> bool:
        return bool(self.gpus)


def query() -> Nvml:
    """Query the NVIDIA driver of this machine; errors are part of the result."""
    try:
        import pynvml  # noqa: TID251 - this is the door
    except ImportError:
        return Nvml(why="the Python package nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Nvml(why=str(error))
    try:
        cuda = int(pynvml.nvmlSystemGetCudaDriverVersion())
        return Nvml(
            driver=_text(pynvml.nvmlSystemGetDriverVersion()),
            cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
            gpus=tuple(_device(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())),
        )
    except pynvml.NVMLError as error:
        return Nvml(why=str(error))
    finally:
        pynvml.nvmlShutdown()


def _device(nvml: Any, index: int) -> GpuDevice:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    mig = _or(nvml, lambda: nvml.nvmlDeviceGetMigMode(handle)[0] == nvml.NVML_DEVICE_MIG_ENABLE, default=False)
    return GpuDevice(
        index=index,
        minor=_or(nvml, lambda: nvml.nvmlDeviceGetMinorNumber(handle), default=-1),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        memory_mib=nvml.nvmlDeviceGetMemoryInfo(handle).total // 2**20,
        mig=mig,
        slices=_slices(nvml, handle) if mig else (),
    )


def _slices(nvml: Any, handle: Any) -> tuple[str, ...]:
    """UUIDs of the MIG devices of a GPU; unused slots are skipped."""
    slots = _or(nvml, lambda: int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)), default=0)

    def uuid(slot: int) -> str:
        return _text(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)))

    return tuple(filter(None, (_or(nvml, functools.partial(uuid, slot), default="") for slot in range(slots))))


def _or(nvml: Any, ask: Any, *, default: Any) -> Any:
    """The result of a query that not every product or platform supports."""
    try:
        return ask()
    except nvml.NVMLError:
        return default


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
