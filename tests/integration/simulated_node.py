"""A directory that acts as a node with simulated GPUs: its /dev, its config, and the library compiled for real."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.config import GpuSpec
from lab.gpu.simulated.devices import SimulatedGpu, gpus_of
from lab.gpu.simulated.node_files import nvml_config
from lab.gpu.simulated.nvml_build import build_library
from lab.tools.process import HostRunner, Result

H100 = GpuSpec.model_validate({"perNode": 16, "model": "H100"})
GPUS = gpus_of("demo", "kailab-demo-worker", H100)

OWN_PIDNS = int(Path("/proc/self/ns/pid").readlink().name.strip("pid:[]"))
"""The PID namespace of the tests, from which they query the library as processes of a node or container do."""


class SimulatedNode:
    """Config, device nodes and usage file of a node."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        self.folder = folder
        self.conf = root / "nvml.conf"
        self.usage = root / "usage"
        (root / "dev").mkdir()

    @property
    def env(self) -> dict[str, str]:
        """Environment that points library and programs here instead of /etc/kailab, /dev and the loader's path."""
        return {
            "LD_LIBRARY_PATH": str(self.folder),
            "KAILAB_NVML_CONFIG": str(self.conf),
            "KAILAB_NVML_DEVROOT": str(self.root),
            "KAILAB_USAGE": str(self.usage),
        }

    def configure(self, *gpus: SimulatedGpu) -> None:
        """Write the config in place, as the lab does in a node."""
        self.conf.write_text(nvml_config("node-a", gpus))

    def give(self, *minors: int) -> None:
        """Create files for device nodes; the library checks only that they exist."""
        for minor in minors:
            (self.root / "dev" / f"nvidia{minor}").touch()

    def use(self, *lines: str, node_pidns: int = OWN_PIDNS) -> None:
        """Write the usage file as gpu-usage does; a line is ``GPU PID PIDNS INNER MIB``."""
        names = ("gpu", "pid", "pidns", "inner", "memory")
        words = [" ".join(f"{name}={word}" for name, word in zip(names, line.split(), strict=True)) for line in lines]
        text = "".join(f"process {line}\n" for line in words)
        self.usage.write_text(f"usage 7 pidns={node_pidns}\n{text}end 7\n")

    def ask(self, program: str) -> Any:
        """Run a Python program that prints JSON, with pynvml imported, in its own process."""
        text = f"import json\nfrom pynvml import *\nfrom ctypes import *\n{program}"
        return json.loads(HostRunner().run([sys.executable, "-c", text], env=self.env, timeout=60).out)

    def smi(self, *words: str, code: int = 0) -> str:
        """Run nvidia-smi, check its exit code, and return its output."""
        done = self.run("nvidia-smi", *words)
        assert (done.code, done.err) == (code, ""), done.out
        return done.out

    def run(self, program: str, *words: str, **env: str) -> Result:
        """Run one of kailab's programs."""
        return HostRunner().run([self.folder / program, *words], env={**self.env, **env}, check=False, timeout=60)


def sick(gpu: SimulatedGpu, xid: int = 0, *, lost: bool = False) -> SimulatedGpu:
    """The GPU after an XID error, or after it fell off the bus."""
    return replace(gpu, xid=xid, lost=lost)


def simulated_node(root: Path) -> SimulatedNode:
    """A node with 16 GPUs and no device nodes yet."""
    made = SimulatedNode(root, build_library(HostRunner()).parent)
    made.configure(*GPUS)
    return made
