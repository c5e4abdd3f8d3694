"""CDI specs of this machine: the GPUs that they name, and whether the files that they mount still exist."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.host.machine import Machine
from lab.host.nvidia.libraries import host_paths

KIND = "nvidia.com/gpu"
FOLDERS = ("/etc/cdi", "/var/run/cdi")
"""Directories that the toolkit's runtime reads; the later one wins (spec-dirs of nvidia-container-toolkit v1.18.0)."""

PLACE = "/etc/cdi/nvidia.yaml"
"""Path of the spec in NVIDIA's guide and of the one that nvidia-ctk replaces."""

GENERATE = (
    "nvidia-ctk",
    "cdi",
    "generate",
    "--mode=auto",
    "--format=yaml",
    "--device-name-strategy=index",
    "--device-name-strategy=uuid",
)
"""Prints the spec. Without ``--mode`` it uses the runtime's mode, and does not support all of them (v1.18.0)."""


@dataclass(frozen=True)
class CdiSpec:
    """The spec for NVIDIA's GPUs that the runtime uses.

    Attributes:
        path: its file; empty without a spec.
        devices: names of its devices: indices, UUIDs, all.
        gone: files that it mounts and that do not exist, such as after a driver update.
    """

    path: str = ""
    devices: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    def lacks(self, uuids: tuple[str, ...]) -> tuple[str, ...]:
        """Reasons to generate the spec again; empty if it is up to date and names all of ``uuids``."""
        if not self.path:
            return (f"no CDI spec for {KIND} exists",)
        lines = [f"{self.path} does not name {uuid}" for uuid in uuids if uuid not in self.devices]
        return (*lines, *(f"{self.path} mounts {path}, which does not exist" for path in self.gone))


def read(machine: Machine) -> CdiSpec:
    """Read the specs and return the last one; unreadable ones are ignored."""
    found = CdiSpec()
    for folder in FOLDERS:
        place = machine.path(folder)
        files = sorted(place.iterdir()) if place.is_dir() else []
        for file in files:
            if file.suffix in (".json", ".yaml", ".yml") and (spec := _spec(file)):
                edits = [spec.get("containerEdits") or {}, *(d.get("containerEdits") or {} for d in spec["devices"])]
                paths = dict.fromkeys(host_paths(edits))
                gone = tuple(path for path in paths if not machine.path(path).exists())
                names = tuple(str(device.get("name")) for device in spec["devices"])
                found = CdiSpec(f"{folder}/{file.name}", names, gone)
    return found


def _spec(file: Path) -> dict[str, Any] | None:
    import yaml

    try:
        spec = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
    if not isinstance(spec, dict) or spec.get("kind") != KIND:
        return None
    devices = spec.get("devices")
    return {**spec, "devices": [d for d in devices if isinstance(d, dict)] if isinstance(devices, list) else []}
