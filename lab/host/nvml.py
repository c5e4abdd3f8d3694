"""NVML: the only importer of ``pynvml`` (distribution nvidia-ml-py)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class GpuDevice:
    """One GPU as NVML describes it. ``minor``, the N of /dev/nvidiaN, may differ from ``index``."""

    index: int
    minor: int
    uuid: str
    name: str
    memory_mib: int
    mig: bool = False


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

    def as_json(self) -> dict[str, Any]:
        """The answer as plain data."""
        return asdict(self)


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
    try:
        mig = nvml.nvmlDeviceGetMigMode(handle)[0] == nvml.NVML_DEVICE_MIG_ENABLE
    except nvml.NVMLError:  # not supported by this product
        mig = False
    return GpuDevice(
        index=index,
        minor=nvml.nvmlDeviceGetMinorNumber(handle),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        memory_mib=nvml.nvmlDeviceGetMemoryInfo(handle).total // 2**20,
        mig=mig,
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
