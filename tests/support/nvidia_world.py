"""Facts of fake machines with NVIDIA GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab.host.engines import EngineFacts
from lab.host.facts import DiskFacts, HostFacts, OsFacts, ToolFacts
from lab.host.nvidia.cdi import CdiSpec
from lab.host.nvidia.discovery import NvidiaFacts
from lab.host.nvidia.driver import KernelDriver
from lab.host.nvidia.libraries import DriverFiles
from lab.host.nvidia.toolkit import Toolkit
from lab.host.nvml import GpuDevice, Nvml

VERSION = "999.12.03"
"""A driver version that does not exist."""

LIB = "/usr/lib/x86_64-linux-gnu"


def uuid(number: int) -> str:
    return f"GPU-00000000-0000-4000-8000-00000000000{number}"


def gpu(index: int, minor: int | None = None, **changes: Any) -> GpuDevice:
    values: dict[str, Any] = {
        "index": index,
        "minor": index if minor is None else minor,
        "uuid": uuid(index),
        "name": "NVIDIA L4",
        "memory_mib": 23034,
    }
    return GpuDevice(**{**values, **changes})


DOCKER = EngineFacts(
    "docker", installed=True, running=True, version="28.2.2", default_runtime="runc", root_dir="/var/lib/docker"
)

TOOLKIT = Toolkit(
    version="1.18.0",
    ctk="/usr/bin/nvidia-ctk",
    runtime="/usr/bin/nvidia-container-runtime",
    hook="/usr/bin/nvidia-cdi-hook",
    modern=True,
)

FILES = DriverFiles(
    libraries=(f"{LIB}/libcuda.so.{VERSION}", f"{LIB}/libnvidia-ml.so.{VERSION}"), programs=("/usr/bin/nvidia-smi",)
)


def facts(**changes: Any) -> NvidiaFacts:
    """Four whole GPUs whose minors differ from their indices; a toolkit, and Docker with its default configuration."""
    gpus = (gpu(0, 2), gpu(1, 0), gpu(2, 1), gpu(3))
    values: dict[str, Any] = {
        "nvml": Nvml(VERSION, "13.0", gpus),
        "kernel": KernelDriver(VERSION, (0, 1, 2, 3), ("nvidiactl", "nvidia-uvm"), modify=True),
        "files": FILES,
        "toolkit": TOOLKIT,
        "cdi": CdiSpec(),
        "engine": DOCKER,
    }
    return NvidiaFacts(**{**values, **changes})


# A machine whose facts name its owner (ada), its name (box7) and its hardware.
# A machine whose facts name its owner (ada), its name (box7) and its hardware.
PRIVATE_UUID, OTHER_UUID = "GPU-0a1b2c3d-1111-2222-3333-444455556666", "GPU-ffffffff-1111-2222-3333-444455556666"
PRIVATE_NVML = Nvml("570.1", "12.8", (gpu(0, uuid=OTHER_UUID), gpu(1, uuid=PRIVATE_UUID)))
PRIVATE_HOST = HostFacts(
    os=OsFacts("debian", "12"),
    cores=2,
    go=(1, 26),
    gpu=PRIVATE_NVML,
    sysctls={"net.ipv4.ip_forward": 1},
    engines=(EngineFacts("docker", root_dir="/home/ada/docker", why="box7 does not answer"),),
    disks=(DiskFacts("cache", "/home/ada/.cache/kailab", 7),),
    tools={"go": ToolFacts("/home/ada/go/bin/go", "1.26")},
)
PRIVATE_FILES = replace(FILES, libraries=("/home/ada/lib/libcuda.so.570.1",))
PRIVATE_NVIDIA = replace(facts(), nvml=PRIVATE_NVML, files=PRIVATE_FILES)
