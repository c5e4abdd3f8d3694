"""The NVIDIA driver and toolkit of the scratch host: its GPUs and files."""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.gpu.nvidia.mounts import LIBRARIES
from lab.paths import assets
from lab.tools.process import Runner

HERE = Path(__file__).parent

VERSION = "999.12.03"
"""No release has this number: code that finds these files has found the loaded driver, not a known release."""

EMPTY = ("cuda", "nvidia-ptxjitcompiler", "nvidia-cfg")
"""Libraries that only need to exist."""

PROC_VERSION = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {VERSION}  Release Build  (scratch)\n"


@dataclass(frozen=True)
class Place:
    """The directories of a driver's libraries and programs."""

    libraries: str
    programs: str


DEBIAN = Place(LIBRARIES[platform.machine()], "/usr/bin")

GKE = Place("/usr/local/nvidia/lib64", "/usr/local/nvidia/bin")
"""As on nodes of Google's cloud, and on the machine with an H100 where kailab was tried: neither the loader's nor the
shell's default directories."""


@dataclass(frozen=True)
class ScratchGpu:
    """One GPU; as on real machines, its minor differs from its index."""

    index: int
    minor: int

    @property
    def uuid(self) -> str:
        """Its UUID."""
        return f"GPU-5c4a7c40-0000-4000-8000-{self.index:012d}"

    @property
    def line(self) -> str:
        """Return its line in the library's config."""
        return (
            f"gpu index={self.index} minor={self.minor} uuid={self.uuid} memory=15360 cc=7.5"
            f" pci=000000FF:{self.index + 1:02X}:00.0 id=1EB810DE name=Tesla T4"
        )


GPUS = (ScratchGpu(0, 2), ScratchGpu(1, 0), ScratchGpu(2, 3), ScratchGpu(3, 1))

DEVICES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "kmsg": (1, 11),
    "tty": (5, 0),
    "fuse": (10, 229),
}
"""Character devices of the scratch host's /dev."""

NVIDIA_DEVICES = {
    "nvidiactl": (195, 255),
    "nvidia-uvm": (195, 253),
    **{f"nvidia{gpu.minor}": (195, gpu.minor) for gpu in GPUS},
}
"""With GPUs, also these."""


def write(home: Path, run: Runner, toolkit: Path | None, place: Place) -> None:
    """Write all files that enter.sh puts into the scratch host.

    Args:
        home: its directory.
        run: compiles.
        toolkit: folder of the toolkit's programs; None for a machine without GPUs.
        place: where the driver is.
    """
    devices = DEVICES | (NVIDIA_DEVICES if toolkit else {})
    (home / "devices").write_text("".join(f"{name} {major} {minor}\n" for name, (major, minor) in devices.items()))
    if toolkit is None:
        for name in ("driver", "proc-driver", "etc"):
            (home / name).mkdir()
        return
    root = home / "driver"
    folder, programs, usual = (root / path.lstrip("/") for path in (place.libraries, place.programs, "/usr/bin"))
    loader = root / "etc" / "ld.so.conf.d"
    for one in (folder, programs, usual, loader):
        one.mkdir(parents=True, exist_ok=True)
    _libraries(folder, run)
    (loader / "scratch.conf").write_text(f"{place.libraries}\n")
    run.run(["cc", "-O1", "-o", programs / "nvidia-smi", HERE / "nvidia_smi.c", "-ldl"], timeout=120)
    for program in toolkit.iterdir():
        shutil.copy(program, usual / program.name)
    nvidia = home / "proc-driver" / "nvidia"
    nvidia.mkdir(parents=True)
    (nvidia / "version").write_text(PROC_VERSION)
    (nvidia / "params").write_text("ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\nDeviceFileMode: 438\n")


def _libraries(folder: Path, run: Runner) -> None:
    config = folder / f"libnvidia-scratch.so.{VERSION}"
    config.write_text("\n".join([f"driver {VERSION}", "cuda 13.0", *(gpu.line for gpu in GPUS), "end", ""]))
    sources = assets("kind") / "nvml"
    run.run(
        [
            "cc",
            "-std=gnu11",
            "-O1",
            "-shared",
            "-fPIC",
            "-s",
            "-Dgetenv=scratch_getenv",
            f'-DSCRATCH_CONFIG="{config.name}"',
            "-Wl,-soname,libnvidia-ml.so.1",
            f"-Wl,--version-script={sources / 'nvml.map'}",
            "-o",
            folder / f"libnvidia-ml.so.{VERSION}",
            *sorted(sources.glob("nvml_*.c")),
            HERE / "nvml_place.c",
            "-ldl",
        ],
        timeout=120,
    )
    for name in EMPTY:
        library = folder / f"lib{name}.so.{VERSION}"
        command = ["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", f"-Wl,-soname,lib{name}.so.1", "-o", library]
        run.run(command, timeout=60)
    for library in folder.glob(f"*.so.{VERSION}"):
        if library != config:
            link = library.with_name(f"{library.name.removesuffix(VERSION)}1")
            link.symlink_to(library.name)
