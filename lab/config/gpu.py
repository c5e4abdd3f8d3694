"""The section ``gpu`` of the lab file: the GPUs of the nodes, by node pool.

Pools inherit missing values from the section; the rest of kailab reads the resolved pools, ``GpuSpec.node_pools``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from lab.config.base import DnsName, ImageReference, Model
from lab.config.gpu_models import find_model

MOST_PER_NODE = 16  # most GPUs of one node: the largest machines (NVIDIA HGX-2) have 16

_MODEL = r"^[!-~]([ -~]*[!-~])?$"
_UUID = r"^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_NODE = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_LABEL_KEY = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
_LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"


def _devices(value: object) -> object:
    if value == "all" or (type(value) is int and value > 0):
        return value
    if (
        isinstance(value, list | tuple)
        and value
        and all(
            re.fullmatch(_UUID, item) if isinstance(item, str) else type(item) is int and item >= 0 for item in value
        )
    ):
        if len({*value}) == len(value):
            return value
        raise PydanticCustomError("devices", "must not name a GPU twice")
    raise PydanticCustomError("devices", "must be all, a number of GPUs, or a list of indices (0, 1) or UUIDs (GPU-…)")


def _different(value: object) -> object:
    if isinstance(value, list | tuple) and any(value.count(item) > 1 for item in value):
        raise PydanticCustomError("nodes", "must not name a node twice")
    return value


def _labels(value: object) -> object:
    for key, text in value.items() if isinstance(value, dict) else ():
        if not isinstance(key, str) or not re.fullmatch(_LABEL_KEY, key):
            raise PydanticCustomError("label", "must have Kubernetes label keys, unlike '{key}'", {"key": key})
        if not isinstance(text, str) or not re.fullmatch(_LABEL_VALUE, text):
            raise PydanticCustomError("label", "must have text of up to 63 of A-Z, a-z, 0-9 and '-_.' as values")
    return value


def _model_name(value: object) -> object:
    if isinstance(value, str) and value and not re.fullmatch(_MODEL, value):
        raise PydanticCustomError("model", "must be ASCII text on one line, without spaces at its ends")
    return value


GpuCount = Annotated[int, Field(ge=0, le=MOST_PER_NODE, strict=True)]

ModelName = Annotated[str, StringConstraints(min_length=1, max_length=95, pattern=_MODEL), BeforeValidator(_model_name)]
"""A line of ASCII: NVML's buffer for a product name holds 95 bytes, and the nodes read it from lines of words."""

MemoryMiB = Annotated[int, Field(gt=100, lt=2**31, strict=True)]
"""KAI ignores a memory of up to 100 MiB; the config of kailab's NVML library holds less than 2^31 MiB."""

Device = Annotated[int, Field(ge=0, strict=True)] | Annotated[str, StringConstraints(pattern=_UUID)]
"""One real GPU: its NVML index or its UUID."""

Devices = Annotated[
    Literal["all"] | Annotated[int, Field(ge=1, strict=True)] | Annotated[tuple[Device, ...], Field(min_length=1)],
    BeforeValidator(_devices),
]
"""Real GPUs of a node: all, a number of them, or a list."""

NodeName = Annotated[str, StringConstraints(max_length=253, pattern=_NODE)]
"""A name that a node can have: a DNS subdomain."""

NodeLabels = Annotated[dict[str, str], BeforeValidator(_labels)]


class GpuPool(Model):
    """Worker nodes with the same GPUs."""

    name: DnsName
    """Name of the pool, also the value of the label kailab/pool of its nodes."""
    workers: Annotated[int, Field(ge=1, le=16, strict=True)] = 1
    """Number of workers (of cluster.workers); pools get workers in the order of the list."""
    per_node: GpuCount | None = None
    """GPUs of each node (simulated); 0: nodes without GPUs. Default: gpu.perNode."""
    model: ModelName | None = None
    """Product name or short name (simulated). Default: gpu.model."""
    memory: Annotated[MemoryMiB | None, Field(alias="memoryMiB")] = None
    """Memory of one GPU in MiB (simulated). Default: that of the model."""
    devices: Devices | None = None
    """Real GPUs of each node (mode nvidia). Default: gpu.devices."""
    labels: NodeLabels = Field(default_factory=dict)
    """Additional labels of these nodes."""


class ToolkitOptions(Model):
    """The NVIDIA container toolkit in the nodes."""

    log: Literal["none", "info", "debug"] = "none"
    """Log level of nvidia-container-runtime, in /var/log/nvidia-container-runtime.log of the nodes."""


class GpuSpec(Model):
    """The GPUs of the nodes."""

    mode: Literal["auto", "nvidia", "simulated", "present", "none"] = "auto"
    """nvidia: real; simulated: everything real except the silicon; auto: nvidia if NVML answers, else simulated.

    provider existing: present, the GPUs that the cluster has, which is also what auto means; simulated, GPUs of 'nodes'
    that only the scheduler sees; or none."""
    nodes: Annotated[tuple[NodeName, ...], BeforeValidator(_different)] = ()
    """provider existing, mode simulated: the nodes that get perNode simulated GPUs each."""
    image: ImageReference | None = None
    """provider existing, mode simulated: kailab's image in a registry of the cluster; fractions of a GPU need it."""
    runtime_class: str | None = None
    """mode present: RuntimeClass of GPU pods. Default: nvidia if the cluster has it."""
    per_node: GpuCount = 2
    """GPUs of each GPU node (simulated)."""
    model: ModelName = "NVIDIA A100-SXM4-40GB"
    """Product name that NVML reports, or a short name such as T4 or H100: 'kailab gpu models' (simulated)."""
    memory: Annotated[MemoryMiB | None, Field(alias="memoryMiB")] = None
    """Memory of one GPU in MiB (simulated). Default: that of the model."""
    devices: Devices = "all"
    """Real GPUs of each GPU node (mode nvidia): all (divided evenly), a number, or a list of indices or UUIDs."""
    strategy: Literal["auto", "volume-mount", "cdi", "explicit-mounts"] = "auto"
    """How real GPUs get into node containers (mode nvidia); auto uses the first that works on this machine."""
    pools: tuple[GpuPool, ...] = ()
    """Nodes with different GPUs. Default: all workers have the same."""
    toolkit: ToolkitOptions = ToolkitOptions()
    """The NVIDIA container toolkit in the nodes."""

    def node_pools(self, nodes: int) -> tuple[NodePool, ...]:
        """The pools with all values resolved; without ``pools``, one unnamed pool of ``nodes`` nodes."""
        if not self.pools:
            return (self._resolved(None, nodes),)
        return tuple(self._resolved(pool, pool.workers) for pool in self.pools)

    def _resolved(self, pool: GpuPool | None, nodes: int) -> NodePool:
        own: dict[str, Any] = {name: value for name, value in pool or () if value is not None}
        model = _full_name(own.get("model", self.model))
        # gpu.memoryMiB belongs to gpu.model: a pool with another model has that model's memory.
        memory = own.get("memory", self.memory if model == _full_name(self.model) else None)
        known = find_model(model)
        return NodePool(
            name=own.get("name", ""),
            nodes=nodes,
            per_node=own.get("per_node", self.per_node),
            model=model,
            memory=memory or (known.memory if known else 0),
            devices=own.get("devices", self.devices),
            labels=dict(own.get("labels", {})),
        )


def _full_name(model: str) -> str:
    known = find_model(model)
    return known.name if known else model


@dataclass(frozen=True)
class NodePool:
    """Nodes with the same GPUs, with all values resolved."""

    name: str
    """Empty for the only pool of a lab file without ``gpu.pools``."""
    nodes: int
    per_node: int
    """Simulated GPUs of each node."""
    model: str
    """Product name as reported by NVML."""
    memory: int
    """MiB of one GPU; 0 only if the lab file breaks a rule (unknown model without ``memoryMiB``)."""
    devices: Literal["all"] | int | tuple[int | str, ...] = "all"
    labels: dict[str, str] = field(default_factory=dict)
