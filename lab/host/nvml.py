"""NVML: the only importer of ``pynvml`` (distribution nvidia-ml-py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MISMATCH = "Driver/Library version mismatch"
"""NVML error 18, in pynvml's words: the driver was updated and the old kernel module is still loaded."""


@dataclass(frozen=True)
class GpuDevice:
    """One GPU as NVML describes it.

    Attributes:
        index: NVML's own, by PCI address; it changes when GPUs are added or hidden.
        minor: the N of /dev/nvidiaN, which may differ from ``index``; -1 where there is none (WSL).
        uuid: ``GPU-…``, the same on every machine and after every boot.
        name: product name.
        memory_mib: all of its memory.
        mig: whether MIG mode is on: the GPU is then cut into slices.
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
    """What NVML answered. ``why`` says why there is nothing, in NVML's words."""

    driver: str = ""
    cuda: str = ""
    gpus: tuple[GpuDevice, ...] = ()
    why: str = ""

    @property
    def usable(self) -> bool:
        """Whether there is a GPU that NVML can talk to."""
        return bool(self.gpus)


def query() -> Nvml:
    """Ask the NVIDIA driver of this machine. No driver, no library and no GPU are answers, not errors."""
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
    """UUIDs of the MIG devices of a GPU; places without one are skipped."""
    most = _or(nvml, lambda: int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)), default=0)
    found = []
    for place in range(most):
        try:
            found.append(_text(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place))))
        except nvml.NVMLError:
            continue
    return tuple(found)


def _or(nvml: Any, ask: Any, *, default: Any) -> Any:
    """An answer that not every product or platform gives."""
    try:
        return ask()
    except nvml.NVMLError:
        return default


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
