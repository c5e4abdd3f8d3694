"""Docker's configuration file daemon.json, and the containers that use an OCI runtime registered in it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from lab.errors import HostNotReady, Leftovers
from lab.host.machine import Machine
from lab.tools.process import Runner

CONFIG = "/etc/docker/daemon.json"
NVIDIA = "nvidia"
"""Name of NVIDIA's OCI runtime."""
WRAPPER = "kailab-runc"
"""Name of the lab's OCI runtime."""
REPLACED_BY_NVIDIA = ("runc", WRAPPER, NVIDIA)
"""Default runtimes that ``nvidia`` may replace: it calls each of them."""

Json = dict[str, Any]


def read(machine: Machine) -> Json:
    """The configuration; empty without a file. Raises HostNotReady if it is not a JSON object."""
    return parse(machine.data(CONFIG))


def parse(data: bytes | None) -> Json:
    """Parse the file's content. Raises HostNotReady if it is not a JSON object."""
    try:
        config = json.loads(data) if data and data.strip() else {}
    except ValueError as error:
        raise HostNotReady(f"{CONFIG} is not JSON: {error}", fix=f"correct {CONFIG}") from error
    if not isinstance(config, dict):
        raise HostNotReady(f"{CONFIG} is not a JSON object", fix=f"correct {CONFIG}")
    return config


def text(config: Mapping[str, Any]) -> bytes:
    """The file's content."""
    return f"{json.dumps(config, indent=2)}\n".encode()


def default_runtime(config: Mapping[str, Any]) -> str:
    """Docker's default runtime with this configuration."""
    return str(config.get("default-runtime", "runc"))


def with_default(
    config: Mapping[str, Any], runtime: str, registration: Json, replaced: Collection[str], fix: str
) -> Json:
    """The configuration with ``runtime`` registered and as default.

    Raises HostNotReady with ``fix`` if another default than those in ``replaced`` is set.
    """
    other = default_runtime(config)
    if other not in replaced:
        raise HostNotReady(f"{CONFIG} sets the default runtime {other}, which the lab does not replace", fix=fix)
    runtimes = {**(config.get("runtimes") or {}), runtime: registration}
    return {**config, "default-runtime": runtime, "runtimes": runtimes}


def without_nvidia(config: Mapping[str, Any], before: Mapping[str, Any]) -> Json:
    """``config`` with the default runtime and the registration of ``nvidia`` that ``before`` has.

    The default runtime is always set: a daemon that reloads a file without it keeps its current one.
    """
    runtimes = {name: runtime for name, runtime in (config.get("runtimes") or {}).items() if name != NVIDIA}
    if (registration := (before.get("runtimes") or {}).get(NVIDIA)) is not None:
        runtimes[NVIDIA] = registration
    rest = {key: value for key, value in config.items() if key not in ("default-runtime", "runtimes")}
    return {**rest, **({"runtimes": runtimes} if runtimes else {}), "default-runtime": default_runtime(before)}


def without_wrapper(data: bytes) -> bytes:
    """The file's content without the lab's runtime; unchanged if it is not a JSON object."""
    try:
        config = parse(data)
    except HostNotReady:
        return data
    if config.get("default-runtime") == WRAPPER:
        del config["default-runtime"]
    if WRAPPER in (config.get("runtimes") or {}):
        del config["runtimes"][WRAPPER]
        if not config["runtimes"]:
            del config["runtimes"]
    return text(config)


def data_root(machine: Machine) -> str:
    """Docker's directory for containers, images and volumes."""
    try:
        return str(read(machine).get("data-root") or "/var/lib/docker")
    except HostNotReady:
        return "/var/lib/docker"


def require_unused(run: Runner, machine: Machine, runtime: str, what: str) -> None:
    """Raise Leftovers about ``what`` if a container, running or not, uses an OCI runtime: it could not start again."""
    if users := _users(run, machine, runtime):
        raise Leftovers(
            f"{what} was kept: containers use the runtime {runtime}",
            evidence=users,
            fix=f"docker rm -f -v {' '.join(users)}; then run the same command again",
        )


def _users(run: Runner, machine: Machine, runtime: str) -> list[str]:
    """Names of the containers with a runtime; ids, from Docker's directory, if Docker does not answer."""
    if run.which("docker") is None:
        return []
    listed = run.run(["docker", "ps", "-aq"], check=False)
    if listed.code != 0:
        folder = f"{data_root(machine)}/containers"
        argv = ["find", folder, "-name", "hostconfig.json", "-exec", "grep", "-l", f'"Runtime":"{runtime}"', "{}", "+"]
        files = machine.as_root(run).run(argv, check=False).out.splitlines()
        return [file.split("/")[-2][:12] for file in files]
    ids = listed.out.split()
    shown = ["docker", "inspect", "-f", "{{.HostConfig.Runtime}} {{.Name}}", *ids]
    lines = run.run(shown, check=False).out.splitlines() if ids else []
    return [line.split()[1].lstrip("/") for line in lines if line.startswith(f"{runtime} ")]
