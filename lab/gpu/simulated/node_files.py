"""Files of a node with simulated GPUs: NVML config, CDI spec, toolkit config and boot units.

One ``docker exec`` unpacks the tar in a node; ``kind/gpu/install.sh`` puts the files in place.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.config.gpu import ToolkitOptions
from lab.gpu.node_state import LabFiles, NodeState, unit_difference
from lab.gpu.simulated.devices import CUDA_VERSION, DEVICE_MAJOR, DRIVER_VERSION, SimulatedGpu
from lab.paths import assets

LIBRARY = "libnvidia-ml.so.1"
HOME = "/usr/local/lib/kailab"
"""Directory of the lab's own files in a node."""

NVML_CONFIG = "/etc/kailab/nvml.conf"
USAGE = "/etc/kailab/usage"
"""Record of the processes on the node's GPUs, in the format of kind/nvml/nvml_usage.c."""
CDI_SPEC = "/etc/cdi/kailab.json"
RUNTIME_CONFIG = "/etc/nvidia-container-runtime/config.toml"
RUNTIME_LOG = "/var/log/nvidia-container-runtime.log"
UNIT = "kailab-gpu.service"
USAGE_UNIT = "kailab-gpu-usage.service"
SMI = "nvidia-smi"
AGENT = "gpu-usage"
PROGRAMS = (SMI, AGENT)
"""Programs that are compiled with the library and lie beside it."""

_SHIPPED = {
    "config.toml": ("nvidia-container-runtime.toml", RUNTIME_CONFIG),
    UNIT: (UNIT, f"/etc/systemd/system/{UNIT}"),
    USAGE_UNIT: (USAGE_UNIT, f"/etc/systemd/system/{USAGE_UNIT}"),
    "gpu-devices": ("gpu-devices.sh", f"{HOME}/gpu-devices"),
}
"""Name in the tar → file in kind/gpu, path in the node."""

PLACED = (
    NVML_CONFIG,
    CDI_SPEC,
    HOME,
    f"/usr/bin/{SMI}",
    *(path for _, path in _SHIPPED.values() if not path.startswith(HOME)),
    *(f"/etc/systemd/system/multi-user.target.wants/{unit}" for unit in (UNIT, USAGE_UNIT)),
)
"""What ``kind/gpu/install.sh`` places in a node, files and folders."""

# Multiarch directories of Debian and its children, where the loader finds the library without ld.so.cache.
_MULTIARCH = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}


def library_path(digest: str) -> str:
    """Return the library's path in a node.

    The digest of its sources is part of the path: a new library never replaces one that pods have mounted.
    """
    return f"{HOME}/nvml-{digest[:16]}/{LIBRARY}"


def nvml_config(node: str, gpus: Sequence[SimulatedGpu]) -> str:
    """Return the text of ``nvml.conf``, in the format of kind/nvml/nvml_config.c."""
    lines = [
        f"# Simulated GPUs of {node}, read by {LIBRARY}.",
        "# Pods have this file bind-mounted: write it in place (cat > FILE), never by rename.",
        f"driver {DRIVER_VERSION}",
        f"cuda {CUDA_VERSION}",
    ]
    for gpu in gpus:
        values = {
            "index": gpu.index,
            "minor": gpu.minor,
            "uuid": gpu.uuid,
            "memory": gpu.memory,
            "cc": gpu.model.compute,
            "pci": gpu.pci_bus_id,
            "id": f"{gpu.model.pci_id:08X}",
            "subsys": f"{gpu.model.pci_subsystem_id:08X}" if gpu.model.subsystem else "",
            "power": gpu.model.watts or "",
            "used": gpu.used or "",
            "xid": gpu.xid or "",
            "health": "lost" if gpu.lost else "",
            "name": gpu.name,
        }
        lines.append(" ".join(["gpu", *(f"{key}={value}" for key, value in values.items() if value != "")]))
    return "\n".join([*lines, "end", ""])


def read_nvml_config(text: str) -> list[dict[str, str]]:
    """Return key → value of each GPU in an ``nvml.conf``."""
    found = []
    for line in text.splitlines():
        if line.startswith("gpu "):
            words, _, name = line.partition(" name=")
            found.append({**dict(word.partition("=")[::2] for word in words.split()[1:]), "name": name.strip()})
    return found


def cdi_spec(gpus: Sequence[SimulatedGpu], library: str, arch: str) -> dict[str, Any]:
    """Return the CDI spec of a node: each GPU by index and by UUID, and ``all``.

    It leaves NVIDIA_VISIBLE_DEVICES alone (nvidia-ctk's own specs set it to void, which hides from a container
    which GPU it got). The library is mounted where the loaders of Debian (multiarch) and of Red Hat look without a
    cache, so no hook has to run ldconfig; musl and scratch images get files they never open.
    """
    smi = str(Path(library).with_name(SMI))
    mounts = {
        f"/usr/lib/{_MULTIARCH[arch]}/{LIBRARY}": library,
        f"/usr/lib64/{LIBRARY}": library,
        f"/usr/bin/{SMI}": smi,
        NVML_CONFIG: NVML_CONFIG,
        USAGE: USAGE,
    }
    read_only = ["ro", "nosuid", "nodev", "rbind", "rprivate"]
    names = {**{str(gpu.index): [gpu] for gpu in gpus}, **{gpu.uuid: [gpu] for gpu in gpus}, "all": gpus}
    return {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "containerEdits": {
            "deviceNodes": [{"path": "/dev/nvidiactl"}, {"path": "/dev/nvidia-uvm"}],
            "mounts": [
                {"hostPath": source, "containerPath": target, "options": read_only} for target, source in mounts.items()
            ],
        },
        "devices": [
            {"name": name, "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{gpu.minor}"} for gpu in chosen]}}
            for name, chosen in names.items()
        ],
    }


@dataclass(frozen=True)
class NodeFiles(LabFiles):
    """The files of one node with simulated GPUs."""

    library: str
    """Path in the node."""
    devices: Mapping[str, str]
    """Path of each GPU's device node → ``major:minor``."""

    script = "state.sh"
    timeout = 30
    marker = f"{HOME}/gpu-devices"
    programs = ("nvidia-container-runtime", "nvidia-ctk")

    @property
    def links(self) -> dict[str, str]:
        """Symbolic links to the programs beside the library: path in the node → target."""
        folder = Path(self.library).parent
        return {f"/usr/bin/{SMI}": f"{folder}/{SMI}", f"{HOME}/{AGENT}": f"{folder}/{AGENT}"}

    def payload(self, library: Path) -> bytes:
        """A tar for ``kind/gpu/install.sh``, with the library built on this machine and the programs beside it."""
        built = {name: library.with_name(name).read_bytes() for name in (LIBRARY, *PROGRAMS)}
        sums = "".join(f"{hashlib.sha256(image).hexdigest()}  {name}\n" for name, image in built.items())
        files = {
            "nvml.conf": (self.texts[NVML_CONFIG].encode(), 0o644),
            "cdi.json": (self.texts[CDI_SPEC].encode(), 0o644),
            "library-path": (f"{self.library}\n".encode(), 0o644),
            **{name: (image, 0o755) for name, image in built.items()},
            "SHA256SUMS": (sums.encode(), 0o644),
            "install.sh": ((assets("kind") / "gpu" / "install.sh").read_bytes(), 0o755),
            **{name: (self.texts[path].encode(), 0o644) for name, (_, path) in _SHIPPED.items()},
        }
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as tar:
            for name, (content, mode) in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), mode
                tar.addfile(entry, io.BytesIO(content))
        return stream.getvalue()

    def obstacles(self, state: NodeState, *, gpus: bool) -> list[str]:
        missing = [f"/usr/bin/{name} is missing" for name in self.missing_programs(state)]
        return missing if state.handler else [*missing, "containerd has no runtime handler 'nvidia'"]

    def differences(self, state: NodeState) -> list[str]:
        lines = super().differences(state)
        if self.library not in state.all("library"):
            lines.append(f"{self.library} or a program beside it is missing or broken")
        links, devices = state.table("link"), state.table("device")
        lines += [
            f"{path} links to {links.get(path, 'nothing')}, should link to {target}"
            for path, target in self.links.items()
            if links.get(path) != target
        ]
        wanted = {**self.devices, "/dev/nvidiactl": f"{DEVICE_MAJOR}:255", "/dev/nvidia-uvm": f"{DEVICE_MAJOR}:253"}
        lines += [
            f"device {path} is {devices.get(path, 'missing')}, should be {numbers}"
            for path, numbers in wanted.items()
            if devices.get(path) != numbers
        ]
        lines += [
            f"device {path} should not exist"
            for path in devices
            if re.fullmatch(r"/dev/nvidia\d+", path) and path not in wanted
        ]
        units = unit_difference(UNIT, state.first("unit")) + unit_difference(USAGE_UNIT, state.first("usage"))
        return lines + units


def runtime_config(text: str, options: ToolkitOptions) -> str:
    """Return the toolkit's config, with a log file where the lab file asks for one."""
    if options.log == "none":
        return text
    return text.replace('log-level = "info"', f'log-level = "{options.log}"\ndebug = "{RUNTIME_LOG}"')


def files_of(
    node: str, gpus: Sequence[SimulatedGpu], library_digest: str, arch: str, options: ToolkitOptions | None = None
) -> NodeFiles:
    """Return the files of a node, for a library built from the sources of that digest."""
    library = library_path(library_digest)
    shipped = assets("kind") / "gpu"
    texts = {path: (shipped / source).read_text() for source, path in _SHIPPED.values()}
    return NodeFiles(
        texts={
            **texts,
            NVML_CONFIG: nvml_config(node, gpus),
            CDI_SPEC: json.dumps(cdi_spec(gpus, library, arch), indent=1) + "\n",
            RUNTIME_CONFIG: runtime_config(texts[RUNTIME_CONFIG], options or ToolkitOptions()),
        },
        library=library,
        devices={f"/dev/nvidia{gpu.minor}": f"{DEVICE_MAJOR}:{gpu.minor}" for gpu in gpus},
    )
