"""Compiles the simulated ``libnvidia-ml.so.1`` (kind/nvml) once per state of its sources and kind of machine.

The machine's C compiler does it; without one, the compiler in the ``ziglang`` wheel.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from lab.errors import CommandFailed, Unavailable
from lab.parts.gpu.node_files import LIBRARY
from lab.paths import assets, cache_root
from lab.supply.store import making, replacing
from lab.tools.shell import Runner

COMPILERS = ("cc", "gcc", "clang")
ZIGLANG = "ziglang==0.15.2"
"""PyPI's build of the Zig compiler; ``zig cc`` is clang with the C libraries of all targets. About 90 MB."""

# The oldest glibc that the library is linked for by zig: RHEL 7's, and the first one with arm64.
_ZIG_GLIBC = "2.17"

_ARCHES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}

Progress = Callable[[str], None]


def node_arch() -> str:
    """The architecture of the nodes, which is this machine's: x86_64 or aarch64.

    Raises:
        Unavailable: this kind of machine is not supported.
    """
    machine = platform.machine().lower()
    if machine not in _ARCHES:
        raise Unavailable(
            f"simulated GPUs need x86-64 or arm64, and this machine is {machine}", fix="set gpu.mode to none"
        )
    return _ARCHES[machine]


def sources() -> tuple[Path, ...]:
    """The library's files, in the order of their names."""
    folder = assets("kind") / "nvml"
    return tuple(sorted(path for path in folder.iterdir() if path.suffix in (".c", ".h", ".map")))


def source_digest(arch: str) -> str:
    """sha256 over what the library is made of: architecture, flags, sources."""
    total = hashlib.sha256(" ".join([arch, *_flags(Path("nvml.map"))]).encode())
    for path in sources():
        total.update(f"\0{path.name}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def library_in_cache(arch: str) -> Path:
    """Where the compiled library lies, or will lie."""
    return cache_root() / "nvml" / source_digest(arch) / LIBRARY


def build_library(run: Runner, progress: Progress = lambda _: None) -> Path:
    """The compiled library for this machine's nodes; made when it is not there yet.

    Raises:
        CommandFailed: the last compiler to be tried failed.
        Unavailable: this kind of machine is not supported.
    """
    arch = node_arch()
    target = library_in_cache(arch)
    with making(target) as needed:
        if needed:
            with replacing(target) as temporary:
                _compile(run, arch, temporary, progress)
    return target


def _compile(run: Runner, arch: str, target: Path, progress: Progress) -> None:
    """Try the machine's compilers, then zig. One without C headers or for another libc counts as none."""
    why = "there is no C compiler on this machine"
    for compiler in COMPILERS if platform.system() == "Linux" else ():
        if run.which(compiler) is None:
            continue
        progress(f"compiling {LIBRARY} with {compiler}")
        done = run.run([compiler, *_command(target)], check=False, timeout=120)
        if done.code == 0 and b"libc.so.6" in target.read_bytes():
            return
        last = next(reversed((done.err or done.out).strip().splitlines()), "it makes no programs for glibc")
        why = f"{compiler} cannot compile it ({last})"
    progress(f"{why}: getting {ZIGLANG}")
    zig = _zig(run, why)
    progress(f"compiling {LIBRARY} with zig")
    triple = f"{arch}-linux-gnu.{_ZIG_GLIBC}"
    caches = {name: str(cache_root() / "zig") for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")}
    run.run([*zig, "cc", "-target", triple, *_command(target)], env=caches, timeout=300)


def _command(target: Path) -> list[str | Path]:
    files = sources()
    script = next(path for path in files if path.suffix == ".map")
    return [*_flags(script), "-o", target, *(path for path in files if path.suffix == ".c")]


def _flags(script: Path) -> Sequence[str]:
    return (
        "-std=gnu11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-s",
        f"-Wl,-soname,{LIBRARY}", f"-Wl,--version-script={script}",
    )  # fmt: skip


def _zig(run: Runner, why: str) -> list[str | Path]:
    """The command line of zig, from a virtual environment of its own in the cache.

    Raises:
        CommandFailed: the wheel cannot be had.
    """
    home = cache_root() / "venvs" / ZIGLANG.replace("==", "-")
    python = home / "bin" / "python"
    done = home / "installed"
    with making(done) as needed:
        if needed:
            try:
                run.run([sys.executable, "-m", "venv", "--clear", home], timeout=120)
                run.run([python, "-m", "pip", "install", "--quiet", "--no-input", ZIGLANG], timeout=900)
            except CommandFailed as error:
                raise CommandFailed(
                    error.argv, error.code, error.out, error.err,
                    why=f"{LIBRARY}: {why}, and the compiler in the ziglang wheel cannot be installed",
                    fix="install a C compiler (on Debian: apt-get install gcc libc6-dev), then lab up again",
                ) from error  # fmt: skip
            done.touch()
    return [python, "-m", "ziglang"]
