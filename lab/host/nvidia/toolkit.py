"""NVIDIA's container toolkit on this machine: its programs, and how its runtime is configured."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lab.errors import CommandFailed, HostNotReady
from lab.host.machine import Machine
from lab.host.nvidia.toml_edit import value_of
from lab.tools.process import Runner

CONFIG = "/etc/nvidia-container-runtime/config.toml"
ACCEPT_MOUNTS = "accept-nvidia-visible-devices-as-volume-mounts"
RUNTIME_TABLE = "nvidia-container-runtime"

JIT = (1, 18)
"""First version whose runtime makes the CDI edits itself (mode jit-cdi) and needs no nvidia-container-cli."""

_MASK_HOOK = "disable-device-node-modification"


@dataclass(frozen=True)
class Toolkit:
    """What is installed and set.

    Attributes:
        version: as ``nvidia-ctk`` tells it; empty when it does not (a build of one's own says "unknown").
        ctk: path of nvidia-ctk; empty when it is not installed.
        runtime: path of nvidia-container-runtime.
        hook: path of nvidia-cdi-hook, which CDI specs run.
        cli: path of nvidia-container-cli, which mode legacy runs.
        modern: whether the runtime needs no nvidia-container-cli.
        mode: ``nvidia-container-runtime.mode`` of the configuration; auto when it is not set.
        mounts: whether device requests by /dev/null mounts are accepted.
        runtimes: the OCI runtimes that it looks for and hands over to.
        broken: why the configuration cannot be read; empty when it can.
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
        """Programs that are not installed and have to be."""
        needed = {"nvidia-ctk": self.ctk, "nvidia-container-runtime": self.runtime, "nvidia-cdi-hook": self.hook}
        if self.cli:  # before 1.17 there is no nvidia-cdi-hook, and mode legacy does without
            del needed["nvidia-cdi-hook"]
        return tuple(name for name, path in needed.items() if not path)


def look(run: Runner, machine: Machine) -> Toolkit:
    """Ask the programs and read the configuration; changes nothing."""
    paths = {
        name: _path(run.which(name))
        for name in ("nvidia-ctk", "nvidia-container-runtime", "nvidia-cdi-hook", "nvidia-container-cli")
    }
    version = _version(run) if paths["nvidia-ctk"] else ""
    text, broken = machine.text(CONFIG), ""
    mode: object = None
    mounts: object = None
    runtimes: object = None
    try:
        mode = value_of(text, RUNTIME_TABLE, "mode")
        mounts = value_of(text, "", ACCEPT_MOUNTS)
        runtimes = value_of(text, RUNTIME_TABLE, "runtimes")
    except HostNotReady as error:
        broken = f"{CONFIG}: {error.what}"
    return Toolkit(
        version=version,
        ctk=paths["nvidia-ctk"],
        runtime=paths["nvidia-container-runtime"],
        hook=paths["nvidia-cdi-hook"],
        cli=paths["nvidia-container-cli"],
        modern=_modern(run, version, paths["nvidia-cdi-hook"]),
        mode=mode if isinstance(mode, str) and mode else "auto",
        mounts=mounts is True,
        runtimes=tuple(map(str, runtimes)) if isinstance(runtimes, list) else (),
        broken=broken,
    )


def hands_over(machine: Machine, runtime: str) -> bool:
    """Whether NVIDIA's runtime starts containers through the OCI runtime of that name."""
    try:
        named = value_of(machine.text(CONFIG), RUNTIME_TABLE, "runtimes")
    except HostNotReady:
        return False
    return bool(isinstance(named, list) and named and str(named[0]).rpartition("/")[2] == runtime)


def _path(found: Path | None) -> str:
    return str(found) if found else ""


def _version(run: Runner) -> str:
    try:
        told = run.run(["nvidia-ctk", "--version"], check=False, timeout=10)
    except CommandFailed:
        return ""
    found = re.search(r"(\d+\.\d+\.\d+[\w.+-]*)", told.out)
    return found[1] if found else ""


def _modern(run: Runner, version: str, hook: str) -> bool:
    """By its version; one that tells none by the hook that came with mode jit-cdi."""
    if version:
        major, minor = version.split(".")[:2]
        return (int(major), int(minor)) >= JIT
    if not hook:
        return False
    try:
        return _MASK_HOOK in run.run([hook, "--help"], check=False, timeout=10).out
    except CommandFailed:
        return False
