"""What NVML tells beside the names: minors that are not there, GPUs that are cut up."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from lab.host import nvml


class Refused(Exception):
    """Stands for pynvml.NVMLError."""


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
        "nvmlDeviceGetMigDeviceHandleByIndex": lambda handle, at: _refuse() if at == 1 else f"slice{at}",
    }
    return SimpleNamespace(**{**answers, **changes})


def asked(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> nvml.GpuDevice:
    monkeypatch.setitem(sys.modules, "pynvml", pynvml(**changes))
    (gpu,) = nvml.query().gpus
    return gpu


def test_a_gpu_in_mig_mode_names_its_slices_and_skips_empty_places(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = asked(monkeypatch)
    assert (gpu.index, gpu.minor, gpu.mig) == (0, 4, True)
    assert gpu.slices == ("uuid of slice0", "uuid of slice2")
    assert (gpu.name, gpu.memory_mib) == ("NVIDIA H100", 16384)


def test_what_a_product_or_platform_does_not_answer_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = asked(monkeypatch, nvmlDeviceGetMigMode=_refuse, nvmlDeviceGetMinorNumber=_refuse)
    assert (gpu.minor, gpu.mig, gpu.slices) == (-1, False, ())


def test_a_gpu_without_a_name_is_an_answer_of_nvml_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", pynvml(nvmlDeviceGetName=_refuse))
    assert not nvml.query().usable
