"""The container engines of this machine and what they report about themselves."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from lab.errors import CommandFailed
from lab.host.machine import Machine
from lab.tools.process import Runner

NAMES = ("docker", "podman", "nerdctl")
"""The engines that kind supports, in the order in which ``auto`` prefers them."""


@dataclass(frozen=True)
class EngineFacts:
    """One container engine.

    ``installed`` is false if only a client is. ``why`` is the reason why it is not running; ``denied`` means that
    the reason is this user's permissions.
    """

    name: str
    installed: bool = False
    running: bool = False
    version: str = ""
    storage: str = ""
    cgroup_driver: str = ""
    cgroup_version: str = ""
    default_runtime: str = ""
    root_dir: str = ""
    rootless: bool = False
    why: str = ""
    denied: bool = False

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor version; (0, 0) if unknown."""
        found = re.match(r"(\d+)\.(\d+)", self.version)
        return (int(found[1]), int(found[2])) if found else (0, 0)


def inspect(name: str, run: Runner, machine: Machine) -> EngineFacts:
    """Query one engine; a missing or silent one gives facts too."""
    if run.which(name) is None:
        return EngineFacts(name, why=f"no {name} command")
    # Docker's client may be installed without the daemon; podman and nerdctl may not.
    installed = name != "docker" or daemon_program(run, machine)
    shape = "json" if name == "podman" else "{{json .}}"
    try:
        answer = run.run([name, "info", "--format", shape], check=False, timeout=15)
    except CommandFailed as error:
        return EngineFacts(name, installed, why=error.what)
    try:
        info = json.loads(answer.out)
    except ValueError:
        info = {}
    errors = info.get("ServerErrors") or []
    facts = _podman(info) if name == "podman" else _docker(info)
    if answer.code != 0 or errors or not facts["version"]:
        why = next(iter([*errors, *answer.err.strip().splitlines()]), "no answer")
        return EngineFacts(name, installed, why=why, denied="permission denied" in why.lower())
    return EngineFacts(name, installed=True, running=True, **facts)


def daemon_program(run: Runner, machine: Machine) -> bool:
    """Whether dockerd is installed, also outside this user's PATH."""
    places = ("usr/sbin", "usr/bin", "usr/local/bin")
    return run.which("dockerd") is not None or any(machine.path(f"/{p}/dockerd").is_file() for p in places)


def _docker(info: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": info.get("ServerVersion", ""),
        "storage": info.get("Driver", ""),
        "cgroup_driver": info.get("CgroupDriver", ""),
        "cgroup_version": str(info.get("CgroupVersion", "")),
        "default_runtime": info.get("DefaultRuntime", ""),
        "root_dir": info.get("DockerRootDir", "/var/lib/nerdctl"),
        "rootless": any("rootless" in option for option in info.get("SecurityOptions") or ()),
    }


def _podman(info: dict[str, Any]) -> dict[str, Any]:
    host, store = info.get("host", {}), info.get("store", {})
    return {
        "version": info.get("version", {}).get("Version", ""),
        "storage": store.get("graphDriverName", ""),
        "cgroup_driver": host.get("cgroupManager", ""),
        "cgroup_version": host.get("cgroupVersion", "").lstrip("v"),
        "default_runtime": host.get("ociRuntime", {}).get("name", ""),
        "root_dir": store.get("graphRoot", ""),
        "rootless": bool(host.get("security", {}).get("rootless")),
    }
