"""CDI specs of this machine: which GPUs they name, and whether the files they mount are still there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.host.machine import Machine
from lab.host.nvidia.libraries import host_paths

KIND = "nvidia.com/gpu"
FOLDERS = ("/etc/cdi", "/var/run/cdi")
"""Where the toolkit's runtime looks; the later folder wins (spec-dirs of nvidia-container-toolkit v1.18.0)."""

PLACE = "/etc/cdi/nvidia.yaml"
"""Where NVIDIA's guide puts the spec, and nvidia-ctk looks for one to replace."""

GENERATE = (
    "nvidia-ctk",
    "cdi",
    "generate",
    "--mode=auto",
    "--format=yaml",
    "--device-name-strategy=index",
    "--device-name-strategy=uuid",
)
"""Writes the spec to stdout. Without ``--mode`` it takes the runtime's, of which it knows not all (v1.18.0)."""


@dataclass(frozen=True)
class CdiSpec:
    """The spec for NVIDIA's GPUs that is in force.

    Attributes:
        path: its file; empty when there is none.
        devices: names of its devices: indices, UUIDs, all.
        gone: files that it mounts and that are not there (an update of the driver leaves such a spec).
    """

    path: str = ""
    devices: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    def lacks(self, uuids: tuple[str, ...]) -> tuple[str, ...]:
        """What has to be generated anew for, a line each; empty when all of ``uuids`` can be had."""
        if not self.path:
            return ("there is no CDI spec for nvidia.com/gpu",)
        lines = [f"{self.path} does not name {uuid}" for uuid in uuids if uuid not in self.devices]
        return (*lines, *(f"{self.path} mounts {path}, which is not there" for path in self.gone))


def look(machine: Machine) -> CdiSpec:
    """Read the specs; one that cannot be read counts as none."""
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
