"""Compiles kind/nvml, once per state of its sources and architecture.

It makes three files: the simulated ``libnvidia-ml.so.1``, the ``nvidia-smi`` on top of it, and ``gpu-usage``, which
runs in the nodes. The machine's C compiler compiles them; without one, the compiler in the ``ziglang`` wheel.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.errors import CommandFailed, Unavailable
from lab.gpu.simulated.node_files import LIBRARY
from lab.paths import assets, cache_root
from lab.supply import Item, Supply
from lab.supply.cache import making, replacing
from lab.tools.process import Runner

COMPILERS = ("cc", "gcc", "clang")
ZIGLANG = "ziglang==0.15.2"
"""PyPI's build of the Zig compiler; ``zig cc`` is clang with the C libraries of all targets. About 90 MB."""

# The oldest glibc that zig links the library for: RHEL 7's, and the first one with arm64.
_ZIG_GLIBC = "2.17"

_ARCHES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}

Progress = Callable[[str], None]


_FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-s")
_LIBRARY_FLAGS = ("-shared", "-fPIC", f"-Wl,-soname,{LIBRARY}", "-Wl,--version-script={folder}/nvml.map")

# Programs need these to start with an older glibc than this machine's (kind/nvml/old_glibc.c). glibc 2.34 moved libdl
# into libc and has no name for linking it any more, but systems before look there.
_PROGRAM_FLAGS = (
    *(f"-Wl,--wrap={name}" for name in ("__libc_start_main", "dlopen", "dlsym")),
    "{folder}/old_glibc.c",
    "-Wl,--no-as-needed",
    "-l:libdl.so.2",
)
# zig links for the glibc in its target.
_ZIG_PROGRAM_FLAGS = ("-ldl",)


@dataclass(frozen=True)
class Product:
    """A compiled file: its name, the first letters of its sources' names, and whether it is a program."""

    name: str
    sources: tuple[str, ...]
    program: bool = True

    def command(self, into: Path, program_flags: tuple[str, ...]) -> list[str | Path]:
        """The compiler's arguments; ``program_flags`` are added for programs."""
        folder = assets("kind") / "nvml"
        files = [path for path in sources() if path.suffix == ".c" and path.name.startswith(self.sources)]
        flags = [flag.format(folder=folder) for flag in (program_flags if self.program else _LIBRARY_FLAGS)]
        return [*_FLAGS, "-o", into / self.name, *files, *flags]


PRODUCTS = (
    Product(LIBRARY, ("nvml_",), program=False),
    Product("nvidia-smi", ("smi_", "nvml_words.c", "nvml_config.c")),
    Product("gpu-usage", ("usage_", "nvml_words.c", "nvml_config.c")),
)
"""All are compiled into the same folder."""


def node_arch() -> str:
    """Return the nodes' architecture, which is this machine's: x86_64 or aarch64. Raises Unavailable for others."""
    machine = platform.machine().lower()
    if machine not in _ARCHES:
        raise Unavailable(
            f"simulated GPUs need x86-64 or arm64, and this machine is {machine}", fix="set gpu.mode to none"
        )
    return _ARCHES[machine]


def sources() -> tuple[Path, ...]:
    """Return the files of kind/nvml by name."""
    folder = assets("kind") / "nvml"
    return tuple(sorted(path for path in folder.iterdir() if path.suffix in (".c", ".h", ".map")))


def source_digest(arch: str) -> str:
    """Return the sha256 of architecture, flags and sources."""
    total = hashlib.sha256(repr((arch, _FLAGS, _LIBRARY_FLAGS, _PROGRAM_FLAGS, _ZIG_PROGRAM_FLAGS, PRODUCTS)).encode())
    for path in sources():
        total.update(f"\0{path.name}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def library_in_cache(arch: str) -> Path:
    """Return the path of the compiled library in the cache; the programs are beside it."""
    return cache_root() / "nvml" / source_digest(arch) / LIBRARY


def bundle_item(arch: str) -> Item:
    """The compiled files as an item of a bundle, for machines without a compiler."""
    return Item("binary", "simulated-nvml", source_digest(arch)[:12])


def library_at_hand(supply: Supply) -> Path | None:
    """Return the library in the cache or in a bundle, with the programs beside it; None without one."""
    arch = node_arch()
    if (library := library_in_cache(arch)).exists():
        return library
    folder = supply.bundled_folder(bundle_item(arch))
    return folder / LIBRARY if folder else None


def build_library(run: Runner, progress: Progress = lambda _: None) -> Path:
    """Return the library for this machine's nodes, with the programs beside it; compile them if the cache lacks them.

    Raises CommandFailed if the last compiler fails, and Unavailable on an unsupported architecture.
    """
    arch = node_arch()
    folder = library_in_cache(arch).parent
    with making(folder, run) as needed:
        if needed:
            with replacing(folder) as temporary:
                temporary.mkdir()
                _compile(run, arch, temporary, progress)
    return folder / LIBRARY


def _compile(run: Runner, arch: str, into: Path, progress: Progress) -> None:
    """Try the machine's compilers, then zig. A compiler without C headers or for another libc does not count."""
    why = "this machine has no C compiler"
    names = ", ".join(product.name for product in PRODUCTS)
    for compiler in COMPILERS if platform.system() == "Linux" else ():
        if run.which(compiler) is None:
            continue
        progress(f"compiling {names} with {compiler}")
        problem = _problem(run, compiler, into)
        if not problem:
            return
        why = f"{compiler} cannot compile it ({problem})"
    progress(f"{why}: installing {ZIGLANG}")
    zig = _zig(run, why)
    progress(f"compiling {names} with zig")
    target = f"{arch}-linux-gnu.{_ZIG_GLIBC}"
    caches = {name: str(cache_root() / "zig") for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")}
    for product in PRODUCTS:
        command = product.command(into, _ZIG_PROGRAM_FLAGS)
        run.run([*zig, "cc", "-target", target, *command], env=caches, timeout=300)


def _problem(run: Runner, compiler: str, into: Path) -> str:
    """Compile everything; returns why that failed, or nothing."""
    for product in PRODUCTS:
        done = run.run([compiler, *product.command(into, _PROGRAM_FLAGS)], check=False, timeout=120)
        if done.code != 0:
            return next(reversed((done.err or done.out).strip().splitlines()), "no error message")
        if b"libc.so.6" not in (into / product.name).read_bytes():
            return "it does not link against glibc"
    return ""


def _zig(run: Runner, why: str) -> list[str | Path]:
    """The command line of zig in its own virtual environment in the cache. Raises CommandFailed."""
    home = cache_root() / "venvs" / ZIGLANG.replace("==", "-")
    python = home / "bin" / "python"
    done = home / "installed"
    with making(done, run) as needed:
        if needed:
            try:
                run.run([sys.executable, "-m", "venv", "--clear", home], timeout=120)
                run.run([python, "-m", "pip", "install", "--quiet", "--no-input", ZIGLANG], timeout=900)
            except CommandFailed as error:
                raise CommandFailed(
                    error.argv,
                    error.code,
                    error.out,
                    error.err,
                    why=f"{LIBRARY}: {why}, and the compiler in the ziglang wheel cannot be installed",
                    fix="install a C compiler (on Debian: apt-get install gcc libc6-dev), then kailab up again",
                ) from error
            done.touch()
    return [python, "-m", "ziglang"]
