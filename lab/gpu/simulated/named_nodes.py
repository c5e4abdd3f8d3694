"""Step ``gpu-nodes`` on an existing cluster: nodes that the lab file names report GPUs that they do not have.

A node gets ``nvidia.com/gpu`` in its status, as Kubernetes' documentation of extended resources shows, and the labels
that KAI reads. Nothing runs on the node, and its kubelet and container runtime stay as they are: to the scheduler these
are GPUs, and to containers nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.config import LabSpec
from lab.config.gpu_models import product_label
from lab.engine.step import Effect, Observed
from lab.errors import LabError, StepFailed
from lab.gpu.nodes import require_planned
from lab.gpu.pools import SIMULATED_LABEL, describe_gpus, pools_by_node
from lab.kai.names import GPU_COUNT_LABEL, GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL, GPU_RESOURCE
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.access_review import Permission
from lab.objects.isolation_labels import NODE_LABEL
from lab.objects.views import NodeView
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.snapshot.node_info import NodeInfo, read_node_infos
from lab.text import count

CLAIM = "simulated-gpus"
"""Kind of the journal's record of a node of an existing cluster that has simulated GPUs."""

_LABELS = (GPU_COUNT_LABEL, GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL)

Json = dict[str, Any]
Nodes = Mapping[str, NodeView]


def simulated_nodes(cluster: Cluster, lab: str) -> tuple[str, ...]:
    """Names of the nodes with simulated GPUs of a lab, by their label."""
    return tuple(node["metadata"]["name"] for node in cluster.list("Node", labels=f"{SIMULATED_LABEL}={lab}"))


def refuse_unfit_nodes(spec: LabSpec, ctx: LabContext) -> None:
    """Raise LabError for nodes that cannot get simulated GPUs; changes nothing.

    They do not exist, or have GPUs or their labels already. In a cluster that others use, it must neither have other
    GPUs nor pods that ask for some: KAI and Kubernetes would put these on simulated GPUs.
    """
    infos = {info.node.name: info for info in read_node_infos(ctx.cluster())}
    wanted = pools_by_node(spec)
    lines = [f"node {name} does not exist" for name in wanted if name not in infos]
    for name in wanted:
        node = infos[name].node if name in infos else None
        if node is None or node.labels.get(SIMULATED_LABEL) == spec.name:
            continue
        if other := node.labels.get(SIMULATED_LABEL):
            lines.append(f"node {name} has simulated GPUs of lab {other}")
        elif GPU_RESOURCE in node.capacity:
            lines.append(f"node {name} has {GPU_RESOURCE} already")
        else:
            lines += [f"node {name} has label {label} already" for label in _LABELS if label in node.labels]
    if not spec.cluster.exclusive:
        lines += _real_gpus(infos)
    if lines:
        raise LabError(
            f"{lines[0]}: the lab cannot simulate GPUs there",
            evidence=lines,
            fix="name other nodes in gpu.nodes; beside other GPUs, only a cluster that is the lab's alone"
            " (cluster.exclusive: true) can have simulated ones",
        )


@dataclass(frozen=True)
class NamedGpuNodes(LabStep):
    """Simulated GPUs of the nodes that the lab file names."""

    spec: LabSpec
    needs: tuple[str, ...] = ("network",)
    id: str = "gpu-nodes"
    title: str = "Simulated GPUs"

    def wanted(self) -> object:
        return pools_by_node(self.spec)

    def permissions(self) -> tuple[Permission, ...]:
        kinds = ("nodes", "nodes/status")
        return tuple(Permission("patch", "", kind, name=name) for name in pools_by_node(self.spec) for kind in kinds)

    def effects(self) -> tuple[Effect, ...]:
        nodes = ", ".join(pools_by_node(self.spec))
        what = f"{nodes}: {GPU_RESOURCE} in the status, labels {SIMULATED_LABEL} and {', '.join(_LABELS)}"
        return (Effect("cluster", f"{describe_gpus(self.spec)} (simulated). {what}", "kailab down"),)

    def observe(self, ctx: LabContext) -> Observed:
        nodes = _nodes(ctx.cluster())
        wanted = pools_by_node(self.spec)
        mine = simulated_nodes(ctx.cluster(), self.spec.name)
        if not mine:
            return Observed.absent()
        diff = [
            *self._differences(nodes),
            *(f"{name}: no longer in the lab file" for name in mine if name not in wanted),
        ]
        return (
            Observed.drifted("GPUs differ from the lab file", diff)
            if diff
            else Observed.ready(describe_gpus(self.spec))
        )

    def apply(self, ctx: LabContext) -> None:
        """Mark the nodes and let them report GPUs; nodes that the file no longer names lose both.

        Raises LabError for nodes that cannot have simulated GPUs.
        """
        cluster, wanted = ctx.cluster(), pools_by_node(self.spec)
        refuse_unfit_nodes(self.spec, ctx)
        for name in simulated_nodes(cluster, self.spec.name):
            if name not in wanted:
                self._release(ctx, name)
        for name, pool in wanted.items():
            ctx.journal.owns(CLAIM, name, self.id)
            cluster.patch("Node", name, {"metadata": {"labels": self._labels(name)}})
            _offer(cluster, name, str(pool.per_node))

    def verify(self, ctx: LabContext) -> None:
        """Raise StepFailed unless the kubelets keep what was written: they report a node's status every 10 s."""
        cluster = ctx.cluster()
        cluster.poll(lambda: not list(self._differences(_nodes(cluster))), timeout=20)
        fix = "find out who changes them: kubectl get nodes -o yaml --show-managed-fields"
        require_planned(self.observe(ctx), "nodes do not keep their simulated GPUs", fix)

    def undo(self, ctx: LabContext) -> None:
        """Let the nodes be as they were. Raises StepFailed while pods of others hold simulated GPUs."""
        infos = {info.node.name: info for info in read_node_infos(ctx.cluster())}
        for name in simulated_nodes(ctx.cluster(), self.spec.name):
            if users := _users(ctx, infos[name]):
                raise StepFailed(
                    f"pods of others hold simulated GPUs of node {name}",
                    evidence=users,
                    fix=f"delete these pods, then kailab down --name {self.spec.name}",
                )
            self._release(ctx, name)

    def remains(self, ctx: LabContext) -> tuple[str, ...]:
        return tuple(f"simulated GPUs of node {name}" for name in simulated_nodes(ctx.cluster(), self.spec.name))

    def _labels(self, name: str) -> dict[str, str]:
        pool = pools_by_node(self.spec)[name]
        values = (str(pool.per_node), str(pool.memory), product_label(pool.model))
        mine = {SIMULATED_LABEL: self.spec.name, OWNER_LABEL: self.spec.name}
        return {**mine, **dict(zip(_LABELS, values, strict=True))}

    def _differences(self, nodes: Nodes) -> Iterator[str]:
        for name, pool in pools_by_node(self.spec).items():
            node = nodes.get(name)
            if node is None:
                yield f"{name}: missing"
                continue
            for label, value in self._labels(name).items():
                if (seen := node.labels.get(label, "missing")) != value:
                    yield f"{name}: label {label} is {seen}, should be {value}"
            for where, amounts in (("capacity", node.capacity), ("allocatable", node.allocatable)):
                if (offered := int(amounts.get(GPU_RESOURCE, 0))) != pool.per_node:
                    yield f"{name}: {count(offered, 'GPU')} {where}, should be {pool.per_node}"

    def _release(self, ctx: LabContext, name: str) -> None:
        """The marking label goes last: a removal that was killed is then found."""
        cluster = ctx.cluster()
        _offer(cluster, name, None)
        labels = dict.fromkeys((SIMULATED_LABEL, *_LABELS))
        if NODE_LABEL not in _nodes(cluster)[name].labels:  # a tenant's node keeps the lab's label
            labels[OWNER_LABEL] = None
        cluster.patch("Node", name, {"metadata": {"labels": labels}})
        ctx.journal.released(CLAIM, name)


def _offer(cluster: Cluster, name: str, gpus: str | None) -> None:
    """Write the number of GPUs into a node's status; None removes the resource."""
    amount = {GPU_RESOURCE: gpus}
    cluster.patch("Node", name, {"status": {"capacity": amount, "allocatable": amount}}, subresource="status")


def _nodes(cluster: Cluster) -> dict[str, NodeView]:
    return {node.name: node for node in map(NodeView.of, cluster.list("Node"))}


def _real_gpus(infos: Mapping[str, NodeInfo]) -> Iterator[str]:
    """Nodes with GPUs that no lab simulates."""
    for name, info in infos.items():
        if info.node.gpus and SIMULATED_LABEL not in info.node.labels:
            yield f"node {name} offers {info.node.gpus} {GPU_RESOURCE}, which are not simulated"


def _users(ctx: LabContext, info: NodeInfo) -> list[str]:
    """Pods outside the namespaces of labs that hold GPUs of a node."""
    spaces = {space["metadata"]["name"] for space in ctx.cluster().list("Namespace", labels=OWNER_LABEL)}
    return [
        f"pod {pod.key}"
        for pod in info.pods
        if (pod.requests.gpus or pod.view.gpu_groups) and not pod.is_reservation and pod.view.namespace not in spaces
    ]
