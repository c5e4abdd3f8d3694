"""NVML queries: missing minor numbers, and GPUs in MIG mode."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from lab.host import nvml


class Refused(Exception):
    """Stand-in for pynvml.NVMLError."""


def _refuse(*_: object) -> object:
    raise Refused


def pynvml(**changes: Any) -> SimpleNamespace:
    answers: dict[str, Any] = {
        "NVMLError": Refused,
        "NVML_DEVICE_MIG_ENABLE": 1,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "999.12",
        "nvmlSystemGetCudaDriverVersion": lambda: 13000,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: f"gpu{index}",
        "nvmlDeviceGetMigMode": lambda handle: (1, 1),
        "nvmlDeviceGetMinorNumber": lambda handle: 4,
        "nvmlDeviceGetUUID": lambda handle: f"uuid of {handle}",
        "nvmlDeviceGetName": lambda handle: b"NVIDIA H100",
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=2**34),
        "nvmlDeviceGetMaxMigDeviceCount": lambda handle: 3,
        "nvmlDeviceGetMigDeviceHandleByIndex": lambda handle, index: _refuse() if index == 1 else f"slice{index}",
    }
    return SimpleNamespace(**{**answers, **changes})


def queried_gpu(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> nvml.GpuDevice:
    monkeypatch.setitem(sys.modules, "pynvml", pynvml(**changes))
    (gpu,) = nvml.query().gpus
    return gpu


def test_gpu_in_mig_mode_lists_its_slices_without_empty_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = queried_gpu(monkeypatch)
    assert (gpu.index, gpu.minor, gpu.mig) == (0, 4, True)
    assert gpu.slices == ("uuid of slice0", "uuid of slice2")
    assert (gpu.name, gpu.memory_mib) == ("NVIDIA H100", 16384)


def test_unsupported_queries_leave_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = queried_gpu(monkeypatch, nvmlDeviceGetMigMode=_refuse, nvmlDeviceGetMinorNumber=_refuse)
    assert (gpu.minor, gpu.mig, gpu.slices) == (-1, False, ())


def test_failed_name_query_makes_nvml_unusable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", pynvml(nvmlDeviceGetName=_refuse))
    assert not nvml.query().usable
