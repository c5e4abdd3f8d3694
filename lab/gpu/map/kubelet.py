"""Pods and their GPUs by the kubelet's own record.

The Kubernetes API does not tell which GPU a pod with ``nvidia.com/gpu`` got. The kubelet keeps it in a file of the
node (pkg/kubelet/cm/devicemanager/checkpoint), and reports it in the status of pods if its feature gate
ResourceHealthStatus is on (alpha since Kubernetes 1.31).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.kai.names import GPU_RESOURCE
from lab.snapshot.pod_info import gpu_of

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
"""The kubelet writes it at each admission of a pod with devices, and when a device's health changes."""


@dataclass(frozen=True)
class Allocations:
    """GPUs of one node by its kubelet."""

    by_pod: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Uid of a pod → UUIDs of its GPUs. Pods that have ended stay in it until the next admission."""
    offered: frozenset[str] | None = None
    """UUIDs of the GPUs that the device plugin reports healthy; None if no plugin ever registered."""


def parse_checkpoint(text: str) -> Allocations:
    """Read the kubelet's file; a missing or different file has no allocations."""
    try:
        data = json.loads(text)["Data"]
    except (ValueError, KeyError, TypeError):
        return Allocations()
    if not isinstance(data, dict):
        return Allocations()
    found: dict[str, tuple[str, ...]] = {}
    for entry in data.get("PodDeviceEntries") or []:
        if entry.get("ResourceName") == GPU_RESOURCE:
            uid = str(entry.get("PodUID", ""))
            found[uid] = tuple(dict.fromkeys((*found.get(uid, ()), *_ids(entry.get("DeviceIDs")))))
    registered = (data.get("RegisteredDevices") or {}).get(GPU_RESOURCE)
    return Allocations(found, None if registered is None else frozenset(map(gpu_of, registered)))


def _ids(devices: Any) -> tuple[str, ...]:
    """The ids by NUMA node; before Kubernetes 1.20 they were one list."""
    if isinstance(devices, dict):
        devices = [device for node in devices.values() for device in node or []]
    return tuple(gpu_of(str(device)) for device in devices or [])
