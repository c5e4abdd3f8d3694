"""What a GPU node gets: NVML config, CDI spec, the toolkit's config, the boot unit; and how they travel.

Everything goes into a node as one tar through one ``docker exec``; ``kind/gpu/install.sh`` puts it in place.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.config.gpu import ToolkitOptions
from lab.gpu.simulated.devices import CUDA_VERSION, DEVICE_MAJOR, DRIVER_VERSION, SimulatedGpu
from lab.paths import assets

LIBRARY = "libnvidia-ml.so.1"
HOME = "/usr/local/lib/kailab"
"""Directory of the lab's own files in a node."""

NVML_CONFIG = "/etc/kailab/nvml.conf"
USAGE = "/etc/kailab/usage"
"""What runs on the node's GPUs; its format is described in kind/nvml/nvml_usage.c."""
CDI_SPEC = "/etc/cdi/kailab.json"
RUNTIME_CONFIG = "/etc/nvidia-container-runtime/config.toml"
RUNTIME_LOG = "/var/log/nvidia-container-runtime.log"
UNIT = "kailab-gpu.service"
USAGE_UNIT = "kailab-gpu-usage.service"
SMI = "nvidia-smi"
AGENT = "gpu-usage"
PROGRAMS = (SMI, AGENT)
"""What is made beside the library, and lies beside it in a node."""

_SHIPPED = {
    "config.toml": ("nvidia-container-runtime.toml", RUNTIME_CONFIG),
    UNIT: (UNIT, f"/etc/systemd/system/{UNIT}"),
    USAGE_UNIT: (USAGE_UNIT, f"/etc/systemd/system/{USAGE_UNIT}"),
    "gpu-devices": ("gpu-devices.sh", f"{HOME}/gpu-devices"),
}
"""Name in the tar → file in kind/gpu, path in the node."""

# Multiarch directories of Debian and its children, where the loader finds the library without ld.so.cache.
_MULTIARCH = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}


def library_path(digest: str) -> str:
    """Where the library lies in a node.

    The digest of its sources is part of the path: a new library never replaces one that pods have mounted.
    """
    return f"{HOME}/nvml-{digest[:16]}/{LIBRARY}"


def beside(library: str, program: str) -> str:
    """Where a program lies that was made with the library."""
    return f"{library.rpartition('/')[0]}/{program}"


def nvml_config(node: str, gpus: Sequence[SimulatedGpu]) -> str:
    """The text of ``nvml.conf``; its format is described in kind/nvml/nvml_config.c."""
    lines = [
        f"# Simulated GPUs of {node}, read by {LIBRARY}.",
        "# Pods have this file bind-mounted: write it in place (cat > FILE), never by rename.",
        f"driver {DRIVER_VERSION}",
        f"cuda {CUDA_VERSION}",
    ]
    for gpu in gpus:
        words = [
            f"gpu index={gpu.index}",
            f"minor={gpu.minor}",
            f"uuid={gpu.uuid}",
            f"memory={gpu.memory}",
            f"cc={gpu.model.compute}",
            f"pci={gpu.pci_bus_id}",
            f"id={gpu.model.pci_id:08X}",
        ]
        words += [f"subsys={gpu.model.pci_subsystem_id:08X}"] if gpu.model.subsystem else []
        words += [f"power={gpu.model.watts}"] if gpu.model.watts else []
        words += [f"used={gpu.used}"] if gpu.used else []
        words += [f"xid={gpu.xid}"] if gpu.xid else []
        words += ["health=lost"] if gpu.lost else []
        lines.append(" ".join([*words, f"name={gpu.name}"]))
    return "\n".join([*lines, "end", ""])


def cdi_spec(gpus: Sequence[SimulatedGpu], library: str, arch: str) -> dict[str, Any]:
    """The CDI spec of a node: each GPU by index and by UUID, and ``all``.

    It leaves NVIDIA_VISIBLE_DEVICES alone (nvidia-ctk's own specs set it to void, which hides from a
    container which GPU it got). The library is mounted where the loaders of Debian (multiarch) and of Red Hat
    look without a cache, so no hook has to run ldconfig; musl and scratch images get files they never open.
    """
    read_only = ["ro", "nosuid", "nodev", "rbind", "rprivate"]
    places = {
        f"/usr/lib/{_MULTIARCH[arch]}/{LIBRARY}": library,
        f"/usr/lib64/{LIBRARY}": library,
        f"/usr/bin/{SMI}": beside(library, SMI),
        NVML_CONFIG: NVML_CONFIG,
        USAGE: USAGE,
    }

    def device(name: str, chosen: Sequence[SimulatedGpu]) -> dict[str, Any]:
        return {
            "name": name,
            "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{gpu.minor}"} for gpu in chosen]},
        }

    return {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "containerEdits": {
            "deviceNodes": [{"path": "/dev/nvidiactl"}, {"path": "/dev/nvidia-uvm"}],
            "mounts": [
                {"hostPath": source, "containerPath": place, "options": read_only} for place, source in places.items()
            ],
        },
        "devices": [
            *(device(str(gpu.index), [gpu]) for gpu in gpus),
            *(device(gpu.uuid, [gpu]) for gpu in gpus),
            device("all", gpus),
        ],
    }


@dataclass(frozen=True)
class NodeFiles:
    """The files of one node: text by path in the node, the path of its library, its GPUs' device nodes."""

    texts: Mapping[str, str]
    library: str
    devices: Mapping[str, str]
    """Path to ``major:minor``."""

    @property
    def links(self) -> dict[str, str]:
        """Symbolic links to the programs beside the library, by their path in the node."""
        return {f"/usr/bin/{SMI}": beside(self.library, SMI), f"{HOME}/{AGENT}": beside(self.library, AGENT)}

    def sums(self) -> dict[str, str]:
        """sha256 of each text by its path."""
        return {path: hashlib.sha256(text.encode()).hexdigest() for path, text in self.texts.items()}

    def payload(self, library: Path) -> bytes:
        """A tar of all files, as ``kind/gpu/install.sh`` expects it; the programs lie beside the library here too."""
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


def runtime_config(text: str, options: ToolkitOptions) -> str:
    """The toolkit's config with a log file where the lab file asks for one; without it the log goes nowhere."""
    if options.log == "none":
        return text
    return text.replace('log-level = "info"', f'log-level = "{options.log}"\ndebug = "{RUNTIME_LOG}"')


def files_of(
    node: str, gpus: Sequence[SimulatedGpu], library_digest: str, arch: str, options: ToolkitOptions | None = None
) -> NodeFiles:
    """The files of the node ``node`` for a library made from the sources of that digest."""
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
