"""The mounts that give kind's nodes real GPUs: requests to NVIDIA's runtime, or the driver's own files. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from lab.host.nvidia.driver import CONTROL
from lab.host.nvidia.libraries import DriverFiles
from lab.host.nvidia.strategies import strategies
from lab.host.nvml import GpuDevice

Mount = dict[str, Any]
"""One entry of ``extraMounts`` in kind's configuration (kind.x-k8s.io/v1alpha4)."""

LIBRARIES = {"x86_64": "/usr/lib/x86_64-linux-gnu", "aarch64": "/usr/lib/aarch64-linux-gnu"}
"""Library directory of the node's Debian by architecture; this machine's may differ."""

PROGRAMS = "/usr/bin"


def extra_mounts(strategy: str, gpus: Sequence[GpuDevice], files: DriverFiles, arch: str) -> list[Mount]:
    """Return the mounts of a node with these GPUs, by a strategy of strategies.toml; none without GPUs.

    GPUs are named by their UUID: an index changes when GPUs come and go, and the colon of a MIG index would end the
    path in the engine's ``--volume``. Only explicit-mounts reads ``files``, the loaded driver's.
    """
    if not gpus:
        return []
    request = strategies()[strategy].request
    if request:
        return [{"hostPath": "/dev/null", "containerPath": request.format(uuid=gpu.uuid)} for gpu in gpus]
    devices = [*CONTROL, *(f"nvidia{gpu.minor}" for gpu in gpus)]
    return [
        *({"hostPath": f"/dev/{name}", "containerPath": f"/dev/{name}"} for name in devices),
        *(_file(path, LIBRARIES[arch]) for path in files.libraries),
        *(_file(path, PROGRAMS) for path in files.programs),
        *(_file(path, str(PurePosixPath(path).parent)) for path in files.firmware),
    ]


def _file(path: str, folder: str) -> Mount:
    return {"hostPath": path, "containerPath": f"{folder}/{PurePosixPath(path).name}", "readOnly": True}
