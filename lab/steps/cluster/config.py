"""The kind configuration of a lab, from kind/cluster.yaml and the lab file. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from lab.config import LabSpec
from lab.gpu.pools import node_labels, node_name, pools_by_node
from lab.paths import assets
from lab.steps.cluster.ports import ClusterPorts

VOLUMES = "/tmp/hostpath_pv"  # noqa: S108 - in the nodes
"""Where kube-controller-manager's host-path provisioner puts volumes (pkg/volume/hostpath/host_path.go).

All nodes mount the same directory of this machine there, so a pod finds its volume on every node, also after a restart:
/tmp of kind's nodes is a tmpfs of each. kube-controller-manager mounts it too, and deletes a volume's data with it.
"""

COREDNS_TAG = "v1.12.4"  # tag of the supply's CoreDNS; kubeadm 1.34 defaults to v1.12.1


def kind_config(
    spec: LabSpec,
    ports: ClusterPorts,
    *,
    own_node: bool,
    old_cgroups: bool = False,
    mounts: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    everywhere: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The configuration for ``kind create cluster``.

    ``own_node``: the node image was built here, so it lacks kindnet and has another CoreDNS. ``old_cgroups``: the
    machine has cgroup v1, and the nodes do not use systemd for their pods' cgroups. ``mounts`` are ``extraMounts`` by
    node for real GPUs; ``everywhere`` are those of all nodes.
    """
    config: dict[str, Any] = yaml.safe_load((assets("kind") / "cluster.yaml").read_text())
    pools = pools_by_node(spec)

    def node(role: str, index: int) -> dict[str, Any]:
        name = node_name(spec.name, role, index)
        labels = node_labels(pools[name]) if name in pools else {}
        extra = [dict(mount) for mount in (*everywhere, *(mounts or {}).get(name, ()))]
        return {"role": role, "labels": {"kailab": spec.name, **labels}, **({"extraMounts": extra} if extra else {})}

    first, *others = (node("control-plane", index) for index in range(spec.cluster.control_planes))
    first["extraPortMappings"] = [
        {"containerPort": port.node, "hostPort": port.host, "listenAddress": "127.0.0.1", "protocol": "TCP"}
        for port in ports.mappings
    ]
    config["nodes"] = [first, *others, *(node("worker", index) for index in range(spec.cluster.workers))]
    config["networking"] = {"apiServerPort": ports.api}
    if own_node:
        config["networking"]["disableDefaultCNI"] = True
        dns = {"kind": "ClusterConfiguration", "dns": {"imageTag": COREDNS_TAG}}
        config["kubeadmConfigPatches"].append(yaml.safe_dump(dns))
    if spec.cluster.control_planes == 1:
        # nobody else leads: a restarted component need not wait until the lease of its dead self has expired
        alone = {"extraArgs": {"leader-elect": "false"}}
        patch = {"kind": "ClusterConfiguration", "controllerManager": alone, "scheduler": alone}
        config["kubeadmConfigPatches"].append(json.dumps(patch))
    if pools:
        config["containerdConfigPatches"].append((assets("kind") / "gpu" / "containerd-nvidia.toml").read_text())
    if old_cgroups:
        folder = assets("kind") / "cgroup-v1"
        files = ("containerd.toml", *(["containerd-nvidia.toml"] if pools else []))
        config["containerdConfigPatches"] += [(folder / name).read_text() for name in files]
        config["kubeadmConfigPatches"].append((folder / "kubelet.yaml").read_text())
    return config


def has_gpus(spec: LabSpec) -> bool:
    """Whether the lab's nodes get GPUs."""
    return bool(pools_by_node(spec))


def shape(spec: LabSpec, image: str) -> str:
    """A hash of properties that are fixed at creation: nodes, image, nodes with GPUs, real GPUs, and mounts."""
    real = {name: pool.devices for name, pool in pools_by_node(spec).items()} if spec.gpu.mode == "nvidia" else {}
    fixed = {
        "image": image,
        "control_planes": spec.cluster.control_planes,
        "workers": spec.cluster.workers,
        "gpus": sorted(pools_by_node(spec)),
        "real": real,
        "strategy": spec.gpu.strategy if real else "",
        "volumes": VOLUMES,
    }
    return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()[:12]
