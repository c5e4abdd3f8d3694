"""The loaded driver's user-space libraries and programs.

They come from the linker's cache (``ldconfig -p``) and from NVIDIA's toolkit (``nvidia-ctk cdi generate``) if it is
installed, not from a fixed list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from lab.errors import CommandFailed
from lab.host.machine import Machine
from lab.tools.process import Runner, output_of

NEEDED = ("libnvidia-ml.so", "libcuda.so")
"""Libraries that NVML and CUDA need."""

PROGRAMS = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
)
"""The driver's programs that containers get (nvidia-container-toolkit v1.18.0, pkg/nvcdi/driver-nvml.go)."""

_CACHED = re.compile(r"^\s+(\S+) \(([^)]*)\) => (/\S+)$", re.MULTILINE)
_WORD = {"x86-64": "x86_64", "AArch64": "aarch64"}


@dataclass(frozen=True)
class DriverFiles:
    """The driver's files on this machine, as real paths of regular files.

    Attributes:
        libraries: ``*.so.<version>``, sorted.
        programs: nvidia-smi and others.
        firmware: firmware of the loaded version.
        witnesses: the sources of each path: ldconfig, toolkit, or both.
    """

    libraries: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    firmware: tuple[str, ...] = ()
    witnesses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def missing(self) -> tuple[str, ...]:
        """Needed libraries that were not found."""
        names = [PurePosixPath(path).name for path in self.libraries]
        return tuple(need for need in NEEDED if not any(name.startswith(f"{need}.") for name in names))


def find(run: Runner, machine: Machine, version: str, arch: str) -> DriverFiles:
    """Find the files of a driver version for an architecture (x86_64, aarch64).

    Other paths than regular files are left out: an engine would create directories for them in the container.
    """
    if not version:
        return DriverFiles()
    cached = _from_ldconfig(run, machine, version, arch)
    mounted = _from_toolkit(run)
    known = {
        path: tuple(name for name, paths in (("ldconfig", cached), ("toolkit", mounted)) if path in paths)
        for path in sorted({*cached, *(path for path in mounted if machine.path(path).is_file())})
    }
    programs = {str(path) for name in PROGRAMS if (path := run.which(name)) is not None}
    programs |= {path for path in known if PurePosixPath(path).name in PROGRAMS}
    libraries = tuple(path for path in known if path.endswith(f".so.{version}"))
    firmware = tuple(path for path in known if f"/firmware/nvidia/{version}/" in path)
    return DriverFiles(libraries, tuple(sorted(programs)), firmware, known)


def _from_ldconfig(run: Runner, machine: Machine, version: str, arch: str) -> set[str]:
    """Files ``*.so.<version>`` in the linker's cache, and others in the directory of libcuda."""
    found: set[str] = set()
    listed = output_of(run, run.which("ldconfig") or "/sbin/ldconfig", "-p", timeout=15)
    for name, flags, path in _CACHED.findall(listed):
        if name.startswith(("libcuda", "libnvidia", "libnv")) and arch in _arches(flags):
            found |= _versioned(machine, path, version)
    for folder in {str(PurePosixPath(path).parent) for path in found if "/libcuda.so." in path}:
        for beside in machine.path(folder).glob(f"*.so.{version}"):
            found |= _versioned(machine, f"{folder}/{beside.name}", version)
    return found


def _arches(flags: str) -> list[str]:
    return [_WORD[word] for word in re.split(r"[,\s]+", flags) if word in _WORD]


def _versioned(machine: Machine, path: str, version: str) -> set[str]:
    """The real path of ``path`` (relative to the machine's root) if it is a file of that version."""
    real = machine.path(path).resolve()
    root = machine.root.resolve()
    if not real.is_file() or not real.is_relative_to(root):
        return set()
    inside = f"/{real.relative_to(root)}"
    return {inside} if inside.endswith(f".so.{version}") else set()


def _from_toolkit(run: Runner) -> set[str]:
    """Files that the toolkit would mount; empty if it is not installed or finds no driver."""
    if run.which("nvidia-ctk") is None:
        return set()
    try:
        done = run.run(["nvidia-ctk", "cdi", "generate", "--mode=auto", "--format=json"], check=False, timeout=30)
        spec = json.loads(done.out) if done.code == 0 else {}
    except (CommandFailed, ValueError):
        return set()
    return set(host_paths([spec.get("containerEdits") or {}]))


def host_paths(edits: Iterable[Mapping[str, object]]) -> list[str]:
    """``hostPath`` of the mounts in container edits of a CDI spec."""
    found = []
    for edit in edits:
        mounts = edit.get("mounts")
        for mount in mounts if isinstance(mounts, list) else []:
            path = mount.get("hostPath") if isinstance(mount, dict) else None
            if isinstance(path, str):
                found.append(path)
    return found
