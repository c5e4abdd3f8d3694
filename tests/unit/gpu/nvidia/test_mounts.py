"""Mounts in kind's configuration for each strategy."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from lab.gpu.nvidia import node_state
from lab.gpu.nvidia.mounts import extra_mounts
from lab.host.nvidia.strategies import strategies
from tests.support.nvidia_world import FILES, LIB, VERSION, gpu, uuid

GPUS = (gpu(0, 2), gpu(1, 0))


@pytest.mark.parametrize(
    ("strategy", "folder"),
    [
        ("volume-mount", "/var/run/nvidia-container-devices"),
        ("cdi", "/var/run/nvidia-container-devices/cdi/nvidia.com/gpu"),
    ],
)
def test_request_mounts_name_each_gpu_by_uuid(strategy: str, folder: str) -> None:
    assert extra_mounts(strategy, GPUS, FILES, "x86_64") == [
        {"hostPath": "/dev/null", "containerPath": f"{folder}/{uuid(0)}"},
        {"hostPath": "/dev/null", "containerPath": f"{folder}/{uuid(1)}"},
    ]


def test_explicit_mounts_are_devices_of_the_node_and_driver_files() -> None:
    firmware = f"/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin"
    fedora = replace(FILES, libraries=(f"/usr/lib64/libcuda.so.{VERSION}",), firmware=(firmware,))
    mounts = extra_mounts("explicit-mounts", GPUS, fedora, "aarch64")
    devices = [mount for mount in mounts if mount["hostPath"].startswith("/dev/")]
    assert [mount["containerPath"] for mount in devices] == [
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia2",
        "/dev/nvidia0",
    ]
    files = {mount["hostPath"]: mount["containerPath"] for mount in mounts if mount not in devices}
    assert files == {
        f"/usr/lib64/libcuda.so.{VERSION}": f"/usr/lib/aarch64-linux-gnu/libcuda.so.{VERSION}",
        "/usr/bin/nvidia-smi": "/usr/bin/nvidia-smi",
        firmware: firmware,
    }
    assert all(mount["readOnly"] for mount in mounts if mount not in devices)


@pytest.mark.parametrize("strategy", list(strategies()))
def test_node_without_gpus_has_no_mounts(strategy: str) -> None:
    assert extra_mounts(strategy, (), FILES, "x86_64") == []


@pytest.mark.parametrize("strategy", list(strategies()))
def test_paths_contain_no_colon(strategy: str) -> None:
    for mount in extra_mounts(strategy, GPUS, FILES, "x86_64"):
        assert ":" not in mount["hostPath"] + mount["containerPath"]


def test_libraries_keep_their_paths() -> None:
    mounts = extra_mounts("explicit-mounts", GPUS, FILES, "x86_64")
    assert {
        "hostPath": f"{LIB}/libcuda.so.{VERSION}",
        "containerPath": f"{LIB}/libcuda.so.{VERSION}",
        "readOnly": True,
    } in mounts


def test_no_file_for_real_gpus_names_a_driver_version() -> None:
    root = Path(node_state.__file__).parents[3]
    places = ("lab/host/nvidia/*", "lab/gpu/nvidia/*.py", "kind/gpu/nvidia/*")
    files = [path for place in places for path in root.glob(place) if path.is_file()]
    assert len(files) > 20
    named = {path.name: found for path in files if (found := re.findall(r"\b\d{3}\.\d{2,3}\b", path.read_text()))}
    assert named == {}
