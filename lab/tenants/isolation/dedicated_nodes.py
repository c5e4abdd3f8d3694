"""Step ``tenant-nodes``: nodes that belong to one tenant alone say so, by a label and a taint.

A vCluster never subtracts the GPUs that others use from its virtual nodes (0.36.1,
pkg/controllers/resources/nodes/translate.go), so a tenant that schedules by itself must have nodes that nobody else
schedules to. The label keeps the host's KAI away (it is that KAI's node pool key) and tells vCluster which nodes the
tenant sees; the taint keeps kube-scheduler and everybody else away. vCluster adds the toleration to the tenant's pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lab.config import LabSpec
from lab.config.labels import NODE_LABEL, tenant_namespace
from lab.config.node_assignment import tenant_nodes
from lab.engine.step import Effect, Observed
from lab.errors import LabError, StepFailed
from lab.gpu.pools import node_name
from lab.kube import Cluster
from lab.kube.retry import retry
from lab.objects.synced import MANAGED_BY_LABEL
from lab.objects.views import PodView
from lab.session.context import LabContext
from lab.session.step import LabStep

_EFFECT = "NoSchedule"
_TRIES = 5

Json = dict[str, Any]


def owners(spec: LabSpec) -> dict[str, str]:
    """Full name of each node that belongs to one tenant → that tenant."""
    # A short name is the role with its number, and the first of a role has none: so it is given as the role itself.
    return {node_name(spec.name, short, 0): name for name, shorts in tenant_nodes(spec).items() for short in shorts}


def tenant_node_steps(spec: LabSpec) -> list[TenantNodes]:
    """The step that marks the tenants' nodes; none where no tenant has any."""
    return [TenantNodes(spec)] if tenant_nodes(spec) else []


def give_back(cluster: Cluster, tenant: str) -> tuple[str, ...]:
    """Take a tenant's marks off its nodes; returns the nodes. For a tenant that is gone: its pods must be, too."""
    mine = [node["metadata"]["name"] for node in cluster.list("Node") if tenant in _marks(node)]
    for name in mine:
        _mark(cluster, name, None)
    return tuple(mine)


@dataclass(frozen=True)
class TenantNodes(LabStep):
    """Label and taint of the nodes that the lab file gives to tenants."""

    spec: LabSpec
    id: str = "tenant-nodes"
    title: str = "Nodes of tenants"

    def wanted(self) -> object:
        return owners(self.spec)

    @property
    def needs(self) -> tuple[str, ...]:
        """Before anything of a tenant: whoever comes first to a node that is not marked yet stays there."""
        return ("network",)

    def effects(self) -> tuple[Effect, ...]:
        return tuple(
            Effect("cluster", f"{', '.join(nodes)} for tenant {name} alone: label {NODE_LABEL}, taint {_EFFECT}")
            for name, nodes in tenant_nodes(self.spec).items()
        )

    def observe(self, ctx: LabContext) -> Observed:
        wanted = owners(self.spec)
        nodes = _nodes(ctx.cluster())
        wrong = {name: line for name, _, line in self._differences(nodes, _spaces(ctx.cluster()))}
        if wanted and not any(_marks(nodes[name]) for name in wanted if name in nodes):
            return Observed.absent()
        diff = [*wrong.values(), *self._strangers(ctx.cluster())]
        if diff:
            return Observed.drifted("nodes of tenants differ", diff)
        return Observed.ready(", ".join(f"{tenant}: {node}" for node, tenant in wanted.items()) or "none")

    def apply(self, ctx: LabContext) -> None:
        """See Step. Nodes that no tenant owns any more lose their marks.

        Raises:
            LabError: a node belongs to a tenant that runs and is not in the lab file, or the lab has no such node.
            ApiFailed: the server refused.
        """
        cluster = ctx.cluster()
        nodes, spaces, wanted = _nodes(cluster), _spaces(cluster), owners(self.spec)
        if lost := [name for name in wanted if name not in nodes]:
            raise LabError(f"the lab has no node {', '.join(lost)}", fix="lab status; 'lab up' starts stopped nodes")
        for name, tenant in wanted.items():
            if added := [mark for mark in _marks(nodes[name]) if self._lives(mark, spaces)]:
                raise LabError(
                    f"node {name} is for tenant {tenant} by the lab file, and tenant {added[0]} has it",
                    fix=f"'lab tenant remove {added[0]}', or give {tenant} other nodes",
                )
        for name, owner, _ in list(self._differences(nodes, spaces)):
            _mark(cluster, name, owner)

    def verify(self, ctx: LabContext) -> None:
        """Raise StepFailed unless the marks are there and nobody else holds GPUs of these nodes."""
        if strangers := self._strangers(ctx.cluster()):
            raise StepFailed(
                "a tenant's own node has GPUs that others hold: the tenant would give them away a second time",
                evidence=strangers,
                fix="delete these pods, then 'lab up' again; new ones go to other nodes",
            )
        seen = self.observe(ctx)
        if seen.diff:
            raise StepFailed(
                "the nodes of tenants are not as planned after marking them",
                evidence=seen.diff,
                fix="see who changes them: kubectl get nodes -o yaml --show-managed-fields",
            )

    def undo(self, ctx: LabContext) -> None:
        for tenant in self.spec.tenants:
            give_back(ctx.cluster(), tenant.name)

    def _differences(self, nodes: dict[str, Json], spaces: set[str]) -> Iterator[tuple[str, str | None, str]]:
        """Nodes whose marks are wrong: name, whose they should be, and that in words."""
        wanted = owners(self.spec)
        for name, tenant in wanted.items():
            if name not in nodes:
                yield name, tenant, f"{name}: missing"
            elif _label(nodes[name]) != tenant or _taints(nodes[name]) != [_taint(tenant)]:
                yield name, tenant, f"{name}: not marked as the node of tenant {tenant}"
        for name, node in nodes.items():
            marks = _marks(node)
            if name not in wanted and marks and not any(self._lives(mark, spaces) for mark in marks):
                yield name, None, f"{name}: still marked for {', '.join(marks)}, whose node it is not"

    def _lives(self, tenant: str, spaces: set[str]) -> bool:
        """Whether a tenant that is not in the lab file runs: 'lab tenant add' made it, and its nodes are its own."""
        return tenant not in {known.name for known in self.spec.tenants} and tenant_namespace(tenant) in spaces

    def _strangers(self, cluster: Cluster) -> list[str]:
        """Pods that hold whole GPUs of a tenant's node and are not the tenant's; reservation pods are among them."""
        wanted = owners(self.spec)
        lines = []
        for pod in map(PodView.of, cluster.list("Pod")):
            tenant = wanted.get(pod.node)
            if tenant is None or not pod.gpu_limit or pod.ended:
                continue
            if (pod.namespace, pod.labels.get(MANAGED_BY_LABEL)) != (tenant_namespace(tenant), tenant):
                lines.append(f"pod {pod.namespace}/{pod.name} on {pod.node}, which is tenant {tenant}'s alone")
        return lines


def _nodes(cluster: Cluster) -> dict[str, Json]:
    return {node["metadata"]["name"]: node for node in cluster.list("Node")}


def _spaces(cluster: Cluster) -> set[str]:
    return {space["metadata"]["name"] for space in cluster.list("Namespace")}


def _label(node: Json) -> str | None:
    return (node["metadata"].get("labels") or {}).get(NODE_LABEL)


def _taints(node: Json) -> list[Json]:
    """The node's taints of this key; what the API adds to them is left out."""
    taints = node.get("spec", {}).get("taints") or []
    kept = ("key", "value", "effect")
    return [{key: taint.get(key) for key in kept} for taint in taints if taint.get("key") == NODE_LABEL]


def _taint(tenant: str) -> Json:
    return {"key": NODE_LABEL, "value": tenant, "effect": _EFFECT}


def _marks(node: Json) -> list[str]:
    """The tenants that label and taints of a node name."""
    named = [_label(node), *(taint["value"] for taint in _taints(node))]
    return list(dict.fromkeys(str(name) for name in named if name))


def _mark(cluster: Cluster, name: str, tenant: str | None) -> None:
    """Mark a node as a tenant's, or as nobody's. Its taints are a list, which a patch replaces as a whole: the version
    in it makes the server refuse a list that somebody has changed meanwhile, and it is read again."""

    def once() -> None:
        node = cluster.get("Node", name)
        if node is None:
            return
        others = [t for t in node.get("spec", {}).get("taints") or [] if t.get("key") != NODE_LABEL]
        version = {key: node["metadata"][key] for key in ("resourceVersion",) if key in node["metadata"]}
        taints = [*others, *([_taint(tenant)] if tenant else [])]
        cluster.patch(
            "Node", name, {"metadata": {**version, "labels": {NODE_LABEL: tenant}}, "spec": {"taints": taints}}
        )

    retry(once, when=lambda error: error.status == 409, attempts=_TRIES, interval=0.2, sleep=cluster.calls.pause)
