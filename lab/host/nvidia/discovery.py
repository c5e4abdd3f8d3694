"""Everything about this machine's NVIDIA GPUs that decides how they get into nodes; gathered once and frozen."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field

from lab.errors import HostNotReady
from lab.host import engines, nvml
from lab.host.engines import EngineFacts
from lab.host.facts import HostFacts
from lab.host.machine import Machine
from lab.host.nvidia import cdi, driver, engine_config, libraries, toolkit
from lab.host.nvidia.cdi import CdiSpec
from lab.host.nvidia.driver import KernelDriver
from lab.host.nvidia.libraries import DriverFiles
from lab.host.nvidia.toolkit import Toolkit
from lab.host.nvml import GpuDevice, Nvml
from lab.tools.process import Runner


@dataclass(frozen=True)
class NvidiaFacts:
    """One machine.

    Attributes:
        nvml: what NVML answers.
        kernel: what the kernel says of the loaded driver.
        files: the driver's libraries and programs.
        toolkit: NVIDIA's container toolkit.
        cdi: the CDI spec in force.
        engine: the engine that will run the nodes; None where none runs yet.
        wanted_engine: the lab file's cluster.engine.
        default_runtime: ``default-runtime`` of Docker's configuration file, as it will be read; runc when unset.
        engine_broken: why Docker's configuration cannot be read; empty when it can.
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
        """The GPUs that can be passed on: whole ones. A GPU in MIG mode is cut up, and its slices are not."""
        return tuple(gpu for gpu in self.nvml.gpus if not gpu.mig)

    @property
    def cut_up(self) -> tuple[GpuDevice, ...]:
        """GPUs in MIG mode."""
        return tuple(gpu for gpu in self.nvml.gpus if gpu.mig)


def discover(run: Runner, facts: HostFacts, *, engine: str = "auto", machine: Machine | None = None) -> NvidiaFacts:
    """Look at the machine; changes nothing, and what is not there is an answer.

    Args:
        run: how programs are asked.
        facts: what is known of the machine; NVML's answer and the engines are taken from there.
        engine: the lab file's cluster.engine.
        machine: where files are read; this machine unless told.
    """
    here = machine or Machine()
    kernel = driver.look(here)
    usable = facts.gpu.usable
    try:
        default, broken = engine_config.default_of(engine_config.read(here)), ""
    except HostNotReady as error:
        default, broken = "runc", error.what
    version = facts.gpu.driver or kernel.version
    return NvidiaFacts(
        nvml=facts.gpu,
        kernel=kernel,
        files=libraries.find(run, here, version, facts.arch) if usable else DriverFiles(),
        toolkit=toolkit.look(run, here) if usable else Toolkit(),
        cdi=cdi.look(here) if usable else CdiSpec(),
        engine=facts.engine(engine),
        wanted_engine=engine,
        default_runtime=default,
        engine_broken=broken,
    )


def discover_now(run: Runner, engine: str, machine: Machine | None = None) -> NvidiaFacts:
    """As ``discover``, asking anew what decides on GPUs and nothing else.

    Args:
        run: how programs are asked.
        engine: name of the engine that runs the nodes.
        machine: where files are read; this machine unless told.
    """
    here = machine or Machine()
    known = HostFacts(arch=platform.machine(), gpu=nvml.query(), engines=(engines.look(engine, run, here),))
    return discover(run, known, engine=engine, machine=here)
