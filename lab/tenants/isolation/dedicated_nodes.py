"""Step ``tenant-nodes``: label and taint of nodes that are dedicated to one tenant.

A vCluster never subtracts the GPUs that others use from its virtual nodes (0.36.1,
pkg/controllers/resources/nodes/translate.go), so a tenant with a scheduler of its own needs nodes to which no other
scheduler binds pods. The label excludes the nodes from the host's KAI (it is that KAI's node pool key) and selects the
nodes that vCluster shows in the tenant; the taint keeps other pods away. vCluster adds the toleration to the tenant's
pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.config import LabSpec
from lab.config.node_assignment import tenant_nodes
from lab.engine.step import Effect, Observed
from lab.errors import LabError, StepFailed
from lab.gpu.pools import SIMULATED_LABEL, node_name
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.access_review import Permission
from lab.kube.retry import retry
from lab.objects.fields import labels_of
from lab.objects.isolation_labels import NODE_LABEL, tenant_namespace
from lab.objects.synced import MANAGED_BY_LABEL
from lab.objects.views import NodeView, PodView
from lab.session.context import LabContext
from lab.session.step import LabStep

CLAIM = "node-mark"
"""Kind of the journal's record of a node of an existing cluster that the lab has marked."""

_EFFECT = "NoSchedule"
_TRIES = 5


def owners(spec: LabSpec) -> dict[str, str]:
    """Name of each dedicated node → its tenant."""
    named = {name: tenant for tenant, names in tenant_nodes(spec).items() for name in names}
    # index 0 adds no number: a short name has its own
    return {node_name(spec.name, name, 0): tenant for name, tenant in named.items()} if spec.cluster.own else named


def taint(tenant: str) -> str:
    """The taint of a tenant's nodes, as kubectl and NodeView write it."""
    return f"{NODE_LABEL}={tenant}:{_EFFECT}"


def marked_nodes(cluster: Cluster, tenant: str) -> tuple[str, ...]:
    """Names of the nodes that carry a tenant's label or taint."""
    return tuple(node.name for node in map(NodeView.of, cluster.list("Node")) if tenant in _marks(node))


def unmark_nodes(ctx: LabContext, tenant: str) -> None:
    """Remove a tenant's label and taint from its nodes; its pods must be gone."""
    cluster = ctx.cluster()
    own = ctx.spec.cluster.own
    for name in marked_nodes(cluster, tenant) if own else [name for name, of in _claims(ctx).items() if of == tenant]:
        _mark(ctx, name, None)


def refuse_unfit_nodes(spec: LabSpec, ctx: LabContext) -> None:
    """Raise LabError for nodes of an existing cluster that cannot be dedicated to a tenant; changes nothing.

    They do not exist, somebody else has dedicated them, or pods of others use their GPUs.
    """
    claims, nodes, wanted = _claims(ctx), _nodes(ctx.cluster()), owners(spec)
    lines = [f"node {name} does not exist" for name in wanted if name not in nodes]
    new = {name: tenant for name, tenant in wanted.items() if name in nodes and name not in claims}
    for name in new:
        lines += [f"node {name} is already dedicated to tenant {mark}" for mark in _marks(nodes[name])]
    lines += _foreign_pods(ctx.cluster(), new)
    if lines:
        raise LabError(
            f"{lines[0]}: nodes cannot be dedicated to tenants",
            evidence=lines,
            fix="name other nodes in tenants[].nodes, or wait until these are free",
        )


@dataclass(frozen=True)
class TenantNodes(LabStep):
    """Label and taint of the nodes that the lab file assigns to tenants."""

    spec: LabSpec
    id: str = "tenant-nodes"
    title: str = "Nodes of tenants"
    needs: tuple[str, ...] = ("network",)
    """Runs before any scheduler can bind a pod to a node that is not marked yet."""

    def wanted(self) -> object:
        return owners(self.spec)

    def permissions(self) -> tuple[Permission, ...]:
        return tuple(Permission("patch", "", "nodes", name=name) for name in sorted(owners(self.spec)))

    def effects(self) -> tuple[Effect, ...]:
        return tuple(
            Effect("cluster", f"{', '.join(nodes)} dedicated to tenant {name}: label {NODE_LABEL}, taint {_EFFECT}")
            for name, nodes in tenant_nodes(self.spec).items()
        )

    def observe(self, ctx: LabContext) -> Observed:
        cluster, wanted = ctx.cluster(), owners(self.spec)
        nodes = _nodes(cluster)
        if wanted and not any(_marks(nodes[name]) for name in wanted if name in nodes):
            return Observed.absent()
        wrong = self._differences(nodes, self._added_tenants(cluster), _claims(ctx))
        if diff := [*(line for _, _, line in wrong), *_foreign_pods(cluster, wanted)]:
            return Observed.drifted("nodes of tenants differ", diff)
        return Observed.ready(", ".join(f"{tenant}: {node}" for node, tenant in wanted.items()) or "none")

    def apply(self, ctx: LabContext) -> None:
        """Mark the nodes, and remove label and taint from nodes that no tenant owns any more.

        Raises LabError: a node does not exist, or belongs to a running tenant that is not in the lab file.
        """
        cluster, wanted = ctx.cluster(), owners(self.spec)
        if not self.spec.cluster.own:
            refuse_unfit_nodes(self.spec, ctx)
        nodes, added = _nodes(cluster), self._added_tenants(cluster)
        if missing := [name for name in wanted if name not in nodes]:
            raise LabError(f"the lab has no node {', '.join(missing)}", fix="'kailab up' starts stopped nodes")
        for name, tenant in wanted.items():
            if other := next((mark for mark in _marks(nodes[name]) if mark in added), ""):
                raise LabError(
                    f"the lab file assigns node {name} to tenant {tenant}, but it is dedicated to tenant {other}",
                    fix=f"run 'kailab tenant remove {other}', or assign other nodes to {tenant}",
                )
        for name, owner, _ in list(self._differences(nodes, added, _claims(ctx))):
            _mark(ctx, name, owner)

    def verify(self, ctx: LabContext) -> None:
        if pods := _foreign_pods(ctx.cluster(), owners(self.spec)):
            raise StepFailed(
                "pods of others hold GPUs on a dedicated node: the tenant would assign these GPUs a second time",
                evidence=pods,
                fix="delete these pods, then run 'kailab up' again; new ones go to other nodes",
            )
        if diff := self.observe(ctx).diff:
            raise StepFailed(
                "the nodes of tenants differ from the plan right after they were marked",
                evidence=diff,
                fix="find out who changes them: kubectl get nodes -o yaml --show-managed-fields",
            )

    def undo(self, ctx: LabContext) -> None:
        for tenant in self.spec.tenants:
            unmark_nodes(ctx, tenant.name)

    def _differences(
        self, nodes: Mapping[str, NodeView], added: set[str], claims: Mapping[str, str]
    ) -> Iterator[tuple[str, str | None, str]]:
        """Nodes with wrong marks: name, rightful tenant, and a line that describes the difference."""
        wanted = owners(self.spec)
        for name, tenant in wanted.items():
            if name not in nodes:
                yield name, tenant, f"{name}: missing"
            elif nodes[name].labels.get(NODE_LABEL) != tenant or _taints(nodes[name]) != [taint(tenant)]:
                yield name, tenant, f"{name}: not marked as the node of tenant {tenant}"
        for name, node in nodes.items():
            marks = _marks(node)
            mine = self.spec.cluster.own or name in claims
            if mine and name not in wanted and marks and not added.intersection(marks):
                yield name, None, f"{name}: still marked for {', '.join(marks)}, to which it is not assigned"

    def _added_tenants(self, cluster: Cluster) -> set[str]:
        """Running tenants that 'kailab tenant add' made and the lab file does not have: they keep their nodes."""
        prefix = tenant_namespace("")
        names = {space["metadata"]["name"] for space in cluster.list("Namespace")}
        running = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
        return running - {tenant.name for tenant in self.spec.tenants}


def _foreign_pods(cluster: Cluster, wanted: Mapping[str, str]) -> list[str]:
    """Pods of others that hold whole GPUs or MIG devices of dedicated nodes, reservation pods among them."""
    lines = []
    for pod in map(PodView.of, cluster.list("Pod")):
        tenant = wanted.get(pod.node)
        if tenant is None or not (pod.requests.gpus or pod.requests.mig) or pod.ended:
            continue
        if (pod.namespace, pod.labels.get(MANAGED_BY_LABEL)) != (tenant_namespace(tenant), tenant):
            lines.append(f"pod {pod.namespace}/{pod.name} on {pod.node}, which is dedicated to tenant {tenant}")
    return lines


def _claims(ctx: LabContext) -> dict[str, str]:
    """Nodes of an existing cluster that this lab has marked → their tenant.

    The label says so, not the journal: a lab without its state is removed by labels.
    """
    nodes = map(NodeView.of, ctx.cluster().list("Node", labels=f"{OWNER_LABEL}={ctx.spec.name}"))
    return {node.name: node.labels.get(NODE_LABEL, "") for node in nodes}


def _nodes(cluster: Cluster) -> dict[str, NodeView]:
    return {node.name: node for node in map(NodeView.of, cluster.list("Node"))}


def _taints(node: NodeView) -> list[str]:
    return [taint for taint in node.taints if taint.startswith((f"{NODE_LABEL}=", f"{NODE_LABEL}:"))]


def _marks(node: NodeView) -> list[str]:
    """The tenants that label and taints of a node name."""
    values = (taint[len(NODE_LABEL) + 1 :].rpartition(":")[0] for taint in _taints(node))
    return list(dict.fromkeys(name for name in (node.labels.get(NODE_LABEL), *values) if name))


def _mark(ctx: LabContext, name: str, tenant: str | None) -> None:
    """Dedicate a node to a tenant, or to none; in an existing cluster with a record and the lab's label.

    A patch replaces the whole list of taints. With ``resourceVersion`` in it, the server refuses (409) a list that has
    changed since it was read; then it is read again.
    """

    cluster, labels = ctx.cluster(), {NODE_LABEL: tenant}
    if tenant and not ctx.spec.cluster.own:
        ctx.journal.owns(CLAIM, name, TenantNodes.id, tenant=tenant)

    def once() -> None:
        node = cluster.get("Node", name)
        if node is None:
            return
        others = [t for t in node.get("spec", {}).get("taints") or [] if t.get("key") != NODE_LABEL]
        own = [{"key": NODE_LABEL, "value": tenant, "effect": _EFFECT}] if tenant else []
        if not ctx.spec.cluster.own:
            stays = tenant or SIMULATED_LABEL in labels_of(node["metadata"])
            labels[OWNER_LABEL] = ctx.spec.name if stays else None
        meta = {"resourceVersion": node["metadata"].get("resourceVersion"), "labels": labels}
        cluster.patch("Node", name, {"metadata": meta, "spec": {"taints": [*others, *own]}})

    retry(once, when=lambda error: error.status == 409, attempts=_TRIES, interval=0.2, sleep=cluster.calls.pause)
    if not (tenant or ctx.spec.cluster.own):
        ctx.journal.released(CLAIM, name)
