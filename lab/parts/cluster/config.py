"""The kind configuration of a lab, made from kind/cluster.yaml and the lab file. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import yaml

from lab.paths import assets
from lab.spec import LabSpec

COREDNS_TAG = "v1.12.4"
"""The supply's CoreDNS; kubeadm 1.34 would ask for v1.12.1."""

SPARE_PORTS = 4
"""Tenants that can be added to a running lab: kind fixes port mappings when it creates the cluster."""

FIRST_NODE_PORT = 30440


@dataclass(frozen=True)
class PortMapping:
    """A port of 127.0.0.1 on this machine that leads to a NodePort; ``owner`` is a tenant's name or ``spare-<n>``."""

    owner: str
    host: int
    node: int


def owners_of_ports(spec: LabSpec) -> tuple[str, ...]:
    """Who gets a port: the lab file's tenants, then spares."""
    return (*(tenant.name for tenant in spec.tenants), *(f"spare-{n}" for n in range(SPARE_PORTS)))


def kind_config(spec: LabSpec, ports: tuple[PortMapping, ...], *, own_node: bool) -> dict[str, Any]:
    """The configuration for ``kind create cluster``.

    Args:
        own_node: the node image was built here, so it has no default CNI and another CoreDNS.
    """
    config: dict[str, Any] = yaml.safe_load((assets("kind") / "cluster.yaml").read_text())
    labels = {"kailab": spec.name}
    gpu_labels = {**labels, "nvidia.com/gpu.present": "true"} if has_gpus(spec) else labels
    control = {"role": "control-plane", "labels": labels if spec.cluster.workers else gpu_labels}
    first = {**control, "extraPortMappings": [
        {"containerPort": port.node, "hostPort": port.host, "listenAddress": "127.0.0.1", "protocol": "TCP"}
        for port in ports
    ]}  # fmt: skip
    others = [control] * (spec.cluster.control_planes - 1)
    config["nodes"] = [first, *others, *[{"role": "worker", "labels": gpu_labels}] * spec.cluster.workers]
    if own_node:
        config["networking"] = {"disableDefaultCNI": True}
        dns = {"kind": "ClusterConfiguration", "dns": {"imageTag": COREDNS_TAG}}
        config["kubeadmConfigPatches"] = [yaml.safe_dump(dns)]
    if has_gpus(spec):
        config["containerdConfigPatches"].append(
            (assets("kind") / "gpu" / "containerd-nvidia.toml").read_text()
        )
    return config


def has_gpus(spec: LabSpec) -> bool:
    """Whether the lab's nodes get GPUs."""
    return spec.gpu.mode != "none" and spec.gpu.per_node > 0


def shape(spec: LabSpec, image: str) -> str:
    """A hash of what only a new cluster can change: nodes, image, GPU mode."""
    fixed = {
        "image": image, "control_planes": spec.cluster.control_planes, "workers": spec.cluster.workers,
        "gpus": has_gpus(spec),
    }  # fmt: skip
    return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()[:12]
