"""NVIDIA's container toolkit on this machine: its programs and its runtime's configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from lab.errors import HostNotReady
from lab.host.machine import Machine
from lab.host.nvidia.toml_edit import value_of
from lab.tools.process import Runner, output_of

CONFIG = "/etc/nvidia-container-runtime/config.toml"
ACCEPT_MOUNTS = "accept-nvidia-visible-devices-as-volume-mounts"
RUNTIME_TABLE = "nvidia-container-runtime"

JIT = (1, 18)
"""First version whose runtime makes CDI edits itself (mode jit-cdi) and needs no nvidia-container-cli."""

_MASK_HOOK = "disable-device-node-modification"
"""A hook that came with mode jit-cdi."""


@dataclass(frozen=True)
class Toolkit:
    """Installed programs and settings.

    Attributes:
        version: as ``nvidia-ctk`` reports it; empty if unknown, as in the user's own builds.
        ctk: path of nvidia-ctk; empty if not installed.
        runtime: path of nvidia-container-runtime.
        hook: path of nvidia-cdi-hook, which CDI specs call.
        cli: path of nvidia-container-cli, which mode legacy calls.
        modern: whether the runtime needs no nvidia-container-cli.
        mode: ``nvidia-container-runtime.mode`` of the configuration; auto if not set.
        mounts: whether device requests by /dev/null mounts are accepted.
        runtimes: the OCI runtimes that it looks for and calls.
        broken: why the configuration cannot be read, or empty.
    """

    version: str = ""
    ctk: str = ""
    runtime: str = ""
    hook: str = ""
    cli: str = ""
    modern: bool = False
    mode: str = "auto"
    mounts: bool = False
    runtimes: tuple[str, ...] = ()
    broken: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """Required programs that are not installed."""
        needed = {"nvidia-ctk": self.ctk, "nvidia-container-runtime": self.runtime, "nvidia-cdi-hook": self.hook}
        if self.cli:  # nvidia-cdi-hook exists since 1.17, and mode legacy does not need it
            del needed["nvidia-cdi-hook"]
        return tuple(name for name, path in needed.items() if not path)


def inspect(run: Runner, machine: Machine) -> Toolkit:
    """Query the programs and read the configuration, without changing anything."""
    names = ("nvidia-ctk", "nvidia-container-runtime", "nvidia-cdi-hook", "nvidia-container-cli")
    ctk, runtime, hook, cli = (str(run.which(name) or "") for name in names)
    version = _version(run) if ctk else ""
    text, broken = machine.text(CONFIG), ""
    mode: Any = None
    mounts: Any = None
    runtimes: Any = None
    try:
        mode = value_of(text, RUNTIME_TABLE, "mode")
        mounts = value_of(text, "", ACCEPT_MOUNTS)
        runtimes = value_of(text, RUNTIME_TABLE, "runtimes")
    except HostNotReady as error:
        broken = f"{CONFIG}: {error.what}"
    return Toolkit(
        version=version,
        ctk=ctk,
        runtime=runtime,
        hook=hook,
        cli=cli,
        modern=_modern(run, version, hook),
        mode=mode if isinstance(mode, str) and mode else "auto",
        mounts=mounts is True,
        runtimes=tuple(map(str, runtimes)) if isinstance(runtimes, list) else (),
        broken=broken,
    )


def calls_runtime(machine: Machine, runtime: str) -> bool:
    """Whether NVIDIA's runtime starts containers with the OCI runtime of that name."""
    try:
        named = value_of(machine.text(CONFIG), RUNTIME_TABLE, "runtimes")
    except HostNotReady:
        return False
    return bool(isinstance(named, list) and named and str(named[0]).rpartition("/")[2] == runtime)


def _version(run: Runner) -> str:
    found = re.search(r"(\d+\.\d+\.\d+[\w.+-]*)", output_of(run, "nvidia-ctk", "--version"))
    return found[1] if found else ""


def _modern(run: Runner, version: str, hook: str) -> bool:
    """Decide by the version, or if it is unknown by the hooks."""
    if version:
        major, minor = version.split(".")[:2]
        return (int(major), int(minor)) >= JIT
    return bool(hook) and _MASK_HOOK in output_of(run, hook, "--help")
