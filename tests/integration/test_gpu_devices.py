"""The script that creates the device nodes of a node (gpu-devices.sh), run for real in a scratch directory."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lab.config import GpuSpec
from lab.gpu.simulated.devices import gpus_of
from lab.gpu.simulated.node_files import nvml_config
from lab.paths import assets
from lab.tools.process import HostRunner


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    probe = tmp_path / "probe"
    try:
        os.mknod(probe, stat.S_IFCHR | 0o600, os.makedev(195, 0))
    except PermissionError:
        pytest.skip("device nodes cannot be made here (needs root and CAP_MKNOD)")
    (tmp_path / "dev").mkdir()
    return tmp_path / "dev"


def run(dev: Path, gpus: int) -> dict[str, tuple[int, int]]:
    """Run the script for this number of GPUs; return the content of ``dev``."""
    conf = dev.parent / "nvml.conf"
    conf.write_text(nvml_config("w", gpus_of("demo", "w", GpuSpec(per_node=gpus))))
    script = assets("kind") / "gpu" / "gpu-devices.sh"
    HostRunner().run(["sh", script], env={"DEV": str(dev), "CONF": str(conf)})
    return {path.name: numbers(path) for path in dev.iterdir()}


def numbers(path: Path) -> tuple[int, int]:
    found = path.stat()
    assert stat.S_ISCHR(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o666
    return os.major(found.st_rdev), os.minor(found.st_rdev)


CONTROL = {"nvidiactl": (195, 255), "nvidia-uvm": (195, 253)}


def test_device_nodes_follow_the_config(dev: Path) -> None:
    twelve = run(dev, 12)
    assert twelve == {**CONTROL, **{f"nvidia{i}": (195, i) for i in range(12)}}
    assert run(dev, 12) == twelve
    assert run(dev, 1) == {**CONTROL, "nvidia0": (195, 0)}


def test_whatever_else_lies_in_the_way_is_replaced(dev: Path) -> None:
    (dev / "nvidia0").write_text("a file")
    os.mknod(dev / "nvidia1", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    assert run(dev, 2) == {**CONTROL, "nvidia0": (195, 0), "nvidia1": (195, 1)}
