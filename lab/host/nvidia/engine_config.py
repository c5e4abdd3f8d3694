"""Docker's configuration file, as far as the runtime ``nvidia`` is concerned. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lab.errors import HostNotReady
from lab.host.machine import Machine

CONFIG = "/etc/docker/daemon.json"
RUNTIME = "nvidia"
REPLACED = ("runc", "kailab-runc", RUNTIME)
"""Default runtimes that the lab may put ``nvidia`` in front of: it hands over to each of them."""

Json = dict[str, Any]


def read(machine: Machine) -> Json:
    """The file as an object; empty when there is none.

    Raises:
        HostNotReady: it is no JSON object.
    """
    return parse(machine.data(CONFIG))


def parse(data: bytes | None) -> Json:
    """See ``read``."""
    try:
        config = json.loads(data) if data and data.strip() else {}
    except ValueError as error:
        raise HostNotReady(f"{CONFIG} is not JSON: {error}", fix=f"correct {CONFIG}") from error
    if not isinstance(config, dict):
        raise HostNotReady(f"{CONFIG} is not a JSON object", fix=f"correct {CONFIG}")
    return config


def with_nvidia(config: Mapping[str, Any], program: str) -> Json:
    """The configuration with ``nvidia`` as default runtime; a ``nvidia`` that is registered already stays.

    Raises:
        HostNotReady: another default runtime is set, which the lab does not replace.
    """
    other = config.get("default-runtime", "runc")
    if other not in REPLACED:
        raise HostNotReady(
            f"{CONFIG} makes {other} the default runtime, which the lab does not replace",
            fix="set gpu.strategy: explicit-mounts, which needs no change of the engine",
        )
    known = config.get("runtimes") or {}
    mine = known.get(RUNTIME) or {"path": program, "runtimeArgs": []}
    return {**config, "default-runtime": RUNTIME, "runtimes": {**known, RUNTIME: mine}}


def default_of(config: Mapping[str, Any]) -> str:
    """The default runtime that a configuration leads to."""
    return str(config.get("default-runtime", "runc"))


def as_before(config: Mapping[str, Any], before: Mapping[str, Any]) -> Json:
    """``config`` with the default runtime that ``before`` leads to, named even where it is Docker's own.

    A daemon that reads a file without ``default-runtime`` again keeps the one it has. The lab's registration goes,
    one that was there before stays.
    """
    kept = {name: runtime for name, runtime in (config.get("runtimes") or {}).items() if name != RUNTIME}
    if (mine := (before.get("runtimes") or {}).get(RUNTIME)) is not None:
        kept[RUNTIME] = mine
    rest = {key: value for key, value in config.items() if key not in ("default-runtime", "runtimes")}
    return {**rest, **({"runtimes": kept} if kept else {}), "default-runtime": default_of(before)}


def text(config: Mapping[str, Any]) -> bytes:
    """The file's bytes."""
    return f"{json.dumps(config, indent=2)}\n".encode()
