"""Facts about this machine's NVIDIA GPUs, driver, toolkit and engine, which decide on the GPU strategy."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field

from lab.errors import HostNotReady
from lab.host import docker_config, engines, nvml
from lab.host.engines import EngineFacts
from lab.host.facts import HostFacts
from lab.host.machine import Machine
from lab.host.nvidia import cdi, driver, libraries, toolkit
from lab.host.nvidia.cdi import CdiSpec
from lab.host.nvidia.driver import KernelDriver
from lab.host.nvidia.libraries import DriverFiles
from lab.host.nvidia.toolkit import Toolkit
from lab.host.nvml import GpuDevice, Nvml
from lab.tools.process import Runner


@dataclass(frozen=True)
class NvidiaFacts:
    """The facts.

    Attributes:
        engine: the engine that will run the nodes; None while none is running.
        wanted_engine: the lab file's cluster.engine.
        default_runtime: Docker's default runtime by its configuration file.
        engine_broken: why Docker's configuration file cannot be read, or empty.
    """

    nvml: Nvml = field(default_factory=Nvml)
    kernel: KernelDriver = field(default_factory=KernelDriver)
    files: DriverFiles = field(default_factory=DriverFiles)
    toolkit: Toolkit = field(default_factory=Toolkit)
    cdi: CdiSpec = field(default_factory=CdiSpec)
    engine: EngineFacts | None = None
    wanted_engine: str = "auto"
    default_runtime: str = "runc"
    engine_broken: str = ""

    @property
    def gpus(self) -> tuple[GpuDevice, ...]:
        """GPUs that can be passed to nodes: those not in MIG mode."""
        return tuple(gpu for gpu in self.nvml.gpus if not gpu.mig)

    @property
    def mig_gpus(self) -> tuple[GpuDevice, ...]:
        return tuple(gpu for gpu in self.nvml.gpus if gpu.mig)


def discover(run: Runner, facts: HostFacts, *, engine: str = "auto", machine: Machine | None = None) -> NvidiaFacts:
    """Gather the facts without changing anything, with the GPUs and engines in ``facts``; missing parts stay empty."""
    here = machine or Machine()
    kernel = driver.read(here)
    usable = facts.gpu.usable
    try:
        default, broken = docker_config.default_runtime(docker_config.read(here)), ""
    except HostNotReady as error:
        default, broken = "runc", error.what
    version = facts.gpu.driver or kernel.version
    return NvidiaFacts(
        nvml=facts.gpu,
        kernel=kernel,
        files=libraries.find(run, here, version, facts.arch) if usable else DriverFiles(),
        toolkit=toolkit.inspect(run, here) if usable else Toolkit(),
        cdi=cdi.read(here) if usable else CdiSpec(),
        engine=facts.engine(engine),
        wanted_engine=engine,
        default_runtime=default,
        engine_broken=broken,
    )


def discover_now(run: Runner, engine: str, machine: Machine | None = None) -> NvidiaFacts:
    """Query the GPUs and the engine of that name again, then gather the facts as ``discover`` does."""
    here = machine or Machine()
    known = HostFacts(arch=platform.machine(), gpu=nvml.query(), engines=(engines.inspect(engine, run, here),))
    return discover(run, known, engine=engine, machine=here)
