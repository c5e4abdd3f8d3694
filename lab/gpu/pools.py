"""Node pools: which node of a lab has which GPUs, by the names that kind gives nodes.

kind names nodes after cluster and role, ``kailab-demo-worker``, ``kailab-demo-worker2``, … in the order of its
configuration (kind 0.33, pkg/cluster/internal/providers/common/namer.go), which is the order of the pools.
"""

from __future__ import annotations

import re

from lab.config import GpuSpec, LabSpec, NodePool
from lab.kai.names import GPU_PRESENT_LABEL
from lab.text import count

POOL_LABEL = "kailab/pool"
"""Label of the nodes of a named pool; its value is the pool's name."""

SIMULATED_LABEL = "kailab.dev/simulated-gpus"
"""Label of the nodes of an existing cluster that have simulated GPUs; its value is the lab's name."""

RUNTIME_CLASS = "nvidia"
"""RuntimeClass of the GPU nodes."""


def node_name(lab: str, role: str, index: int) -> str:
    """Return the name of a lab's node, counted from 0; ``role`` is worker or control-plane."""
    return f"kailab-{lab}-{role}{index + 1 if index else ''}"


def short_name(lab: str, node: str) -> str:
    """Return the node's name without the cluster's: ``worker2``."""
    return node.removeprefix(f"kailab-{lab}-")


def pools_by_node(spec: LabSpec) -> dict[str, NodePool]:
    """Return the pools of the nodes with GPUs, in the order of the pools; empty in mode ``none``.

    In mode ``nvidia`` every node of a pool counts: the machine decides whether it gets GPUs. In an existing cluster the
    lab file names the nodes.
    """
    if not spec.cluster.own:
        return {name: pool for pool in spec.gpu_pools for name in spec.gpu.nodes}
    role = "worker" if spec.cluster.workers else "control-plane"
    pools = [pool for pool in spec.gpu_pools for _ in range(pool.nodes)]
    return {
        node_name(spec.name, role, index): pool
        for index, pool in enumerate(pools)
        if pool.per_node or spec.gpu.mode == "nvidia"
    }


def node_labels(pool: NodePool) -> dict[str, str]:
    """Return the labels that a GPU node has from its pool."""
    own = {POOL_LABEL: pool.name} if pool.name else {}
    return {**pool.labels, **own, GPU_PRESENT_LABEL: "true"}


def runtime_class(spec: LabSpec) -> str:
    """Return the RuntimeClass of GPU pods: that of the lab's nodes, or the one of an existing cluster; empty: none."""
    if spec.gpu.mode == "present":
        return spec.gpu.runtime_class or ""
    return RUNTIME_CLASS if spec.cluster.own and pools_by_node(spec) else ""


def pool_of(gpu: GpuSpec, node: str) -> NodePool | None:
    """Return the pool of a node by its name; None for a node outside all pools."""
    pools = gpu.node_pools(1)
    if not gpu.pools:
        return pools[0]
    found = re.search(r"-worker(\d*)$", node)
    workers = [pool for pool in pools for _ in range(pool.nodes)]
    return dict(enumerate(workers, 1)).get(int(found[1] or 1)) if found else None


def describe_gpus(spec: LabSpec) -> str:
    """Describe the lab's GPUs: ``2 workers × 2 Tesla T4``, or pool by pool."""
    role = "node" if not spec.cluster.own else "worker" if spec.cluster.workers else "control-plane node"
    parts = []
    for pool in spec.gpu_pools:
        if spec.gpu.mode != "nvidia":
            gpus = f"{pool.per_node} {pool.model}" if pool.per_node else "no GPU"
        elif isinstance(pool.devices, tuple):
            gpus = f"GPUs {', '.join(map(str, pool.devices))}"
        else:
            gpus = f"{pool.devices} of the machine's GPUs"
        parts.append(f"{f'{pool.name}: ' if pool.name else ''}{count(pool.nodes, role)} × {gpus}")
    return ", ".join(parts)
