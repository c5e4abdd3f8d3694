"""GPUs as the nodes report them: the kubelet's record and, for simulated GPUs, NVML's config.

The Kubernetes API does not tell which GPU a pod with ``nvidia.com/gpu`` got. The kubelet keeps it in a file of the
node (pkg/kubelet/cm/devicemanager/checkpoint), and reports it in the status of pods if its feature gate
ResourceHealthStatus is on (alpha since Kubernetes 1.31). kailab queries only nodes of its own labs, by one command in
each node container.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lab.errors import Interrupted, LabError
from lab.gpu.map.model import Gpu
from lab.gpu.nodes import on_nodes
from lab.gpu.simulated.health import HEALTHY, Health
from lab.gpu.simulated.node_files import NVML_CONFIG, read_nvml_config
from lab.host.nvml import Nvml, query
from lab.kai.names import GPU_RESOURCE
from lab.session.context import LabContext
from lab.snapshot.pod_info import gpu_of

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
"""The kubelet writes it at each admission of a pod with devices, and when a device's health changes."""

SECONDS = 15.0
"""Timeout of one node."""

_MARK = "--- kubelet"
_COMMAND = f"cat {NVML_CONFIG} 2>/dev/null; echo '{_MARK}'; cat {CHECKPOINT} 2>/dev/null; true"


@dataclass(frozen=True)
class NodeEvidence:
    """The report of one node; ``why`` is the reason of an empty one."""

    gpus: tuple[Gpu, ...] = ()
    by_pod: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Uid of a pod → UUIDs of its GPUs. Pods that have ended stay in it until the next admission."""
    offered: frozenset[str] | None = None
    """UUIDs of the GPUs that the device plugin reports healthy; None if no plugin ever registered."""
    why: str = ""


Ask = Callable[[Sequence[str]], Mapping[str, NodeEvidence]]
"""Queries nodes by name. A node that does not answer is evidence with a reason, not an error."""


def lab_nodes(ctx: LabContext) -> Ask:
    """Return a function that queries the node containers of a lab, all at once, and no nodes of other clusters.

    It skips nodes that are no containers of the kind cluster (KWOK's). It raises Interrupted.
    """
    if not ctx.spec.cluster.own:
        return lambda names: {}
    nvml = query() if ctx.spec.gpu.mode == "nvidia" else Nvml()

    def read(node: str) -> NodeEvidence:
        try:
            return parse(node, ctx.engine.exec(node, ["sh", "-c", _COMMAND], timeout=SECONDS).out, nvml)
        except Interrupted:
            raise
        except LabError as error:
            return NodeEvidence(why=error.what)

    return lambda names: on_nodes((name for name in names if name.startswith(f"{ctx.kind_name}-")), read)


def parse(node: str, text: str, nvml: Nvml | None = None) -> NodeEvidence:
    """Read the output of a node."""
    config, _, record = text.partition(f"{_MARK}\n")
    kubelet = parse_checkpoint(record)
    return replace(kubelet, gpus=_simulated(node, config) or _real(node, kubelet.offered or (), nvml or Nvml()))


def parse_checkpoint(text: str) -> NodeEvidence:
    """Read the kubelet's file; a missing or different file has no allocations."""
    try:
        data = json.loads(text)["Data"]
        entries = data.get("PodDeviceEntries") or []
        registered = (data.get("RegisteredDevices") or {}).get(GPU_RESOURCE)
    except (ValueError, KeyError, TypeError, AttributeError):
        return NodeEvidence()
    found: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        if entry.get("ResourceName") == GPU_RESOURCE:
            uid = str(entry.get("PodUID", ""))
            found[uid] = tuple(dict.fromkeys((*found.get(uid, ()), *_ids(entry.get("DeviceIDs")))))
    return NodeEvidence(by_pod=found, offered=None if registered is None else frozenset(map(gpu_of, registered)))


def _ids(devices: Any) -> tuple[str, ...]:
    """The ids by NUMA node; before Kubernetes 1.20 they were one list."""
    if isinstance(devices, dict):
        devices = [device for node in devices.values() for device in node or []]
    return tuple(gpu_of(str(device)) for device in devices or [])


def _simulated(node: str, config: str) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(
            node,
            _whole(values.get("index")),
            values.get("uuid", ""),
            values["name"],
            _whole(values.get("memory")),
            trouble=str(health) if (health := Health.of(values)) != HEALTHY else "",
        )
        for values in read_nvml_config(config)
    )


def _real(node: str, offered: Collection[str], nvml: Nvml) -> tuple[Gpu, ...]:
    """The GPUs that the kubelet offers, with their data from NVML of this machine."""
    known = {gpu.uuid: Gpu(node, gpu.index, gpu.uuid, gpu.name, gpu.memory_mib) for gpu in nvml.gpus}
    found = [known.get(uuid, Gpu(node, None, uuid)) for uuid in sorted(offered)]
    return tuple(sorted(found, key=lambda gpu: (gpu.index is None, gpu.index or 0)))


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
