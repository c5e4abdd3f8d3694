"""Failed simulated GPUs. A node's nvml.conf is their only record; the plan does not contain them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lab.gpu.simulated.devices import SimulatedGpu
from lab.gpu.simulated.node_files import NVML_CONFIG, read_nvml_config
from lab.session.context import LabContext

OFF_THE_BUS = 79
"""The XID error that comes before a GPU is lost."""

XIDS: Mapping[int, str] = {
    13: "graphics engine exception",
    31: "GPU memory page fault",
    43: "GPU stopped processing",
    45: "preemptive cleanup",
    48: "double-bit ECC error",
    62: "internal micro-controller halt",
    63: "ECC page retirement or row remapping",
    64: "failed ECC page retirement or row remapping",
    68: "video processor exception",
    74: "NVLink error",
    OFF_THE_BUS: "GPU has fallen off the bus",
    94: "contained ECC error",
    95: "uncontained ECC error",
    109: "context switch timeout",
    119: "GSP RPC timeout",
}
"""Meaning of common XID errors. https://docs.nvidia.com/deploy/xid-errors"""

APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""Errors of applications: the device plugin keeps the GPU healthy (v0.18.0, internal/rm/health.go)."""


@dataclass(frozen=True)
class Health:
    """Health of a GPU: ``xid`` is the last XID error (0: none), ``lost`` means that NVML no longer reaches it."""

    xid: int = 0
    lost: bool = False

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Health:
        """The health in a GPU's values in nvml.conf."""
        xid = values.get("xid", "")
        lost = values.get("health") == "lost" or values.get("lost") == "1"
        return cls(int(xid) if xid.isdecimal() else 0, lost)

    @property
    def failed(self) -> bool:
        """Whether the device plugin marks the GPU unhealthy."""
        return self.lost or (self.xid != 0 and self.xid not in APPLICATION_XIDS)

    def __str__(self) -> str:
        parts = []
        if self.xid:
            known = XIDS.get(self.xid)
            parts.append(f"XID {self.xid}{f', {known}' if known else ''}")
        if self.lost:
            parts.append("lost")
        return "; ".join(parts) or "healthy"


HEALTHY = Health()

Failures = Mapping[int, Health]
"""Index of each GPU that is not healthy → its health."""


def failures_in(config: str) -> dict[int, Health]:
    """Return the GPUs of an nvml.conf that are not healthy."""
    gpus = [(gpu.get("index", ""), Health.of(gpu)) for gpu in read_nvml_config(config)]
    return {int(index): health for index, health in gpus if index.isdecimal() and health != HEALTHY}


def failures_on(ctx: LabContext, node: str) -> dict[int, Health]:
    """Return the GPUs of a node that are not healthy; none if it has no nvml.conf or does not run."""
    return failures_in(ctx.engine.read_file(node, NVML_CONFIG, timeout=30))


def with_failures(gpus: Iterable[SimulatedGpu], failures: Failures) -> tuple[SimulatedGpu, ...]:
    """Return the GPUs of a node with these failures."""
    found = [(gpu, failures.get(gpu.index, HEALTHY)) for gpu in gpus]
    return tuple(replace(gpu, xid=health.xid, lost=health.lost) for gpu, health in found)
