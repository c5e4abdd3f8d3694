"""What is left of a tenant: in its namespace, cluster-wide, on nodes, and on this machine. Read only.

What vCluster makes and where is that of 0.36.1 (chart/templates, pkg/util/translate). Deleting the namespace alone
leaves its ClusterRole and binding; uninstalling its release alone leaves every synced object with ``setOwner: false``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from lab.config.labels import NODE_LABEL, tenant_namespace
from lab.kai.names import RESERVATION_APP
from lab.kube import Cluster
from lab.objects.synced import MANAGED_BY_LABEL
from lab.objects.views import NodeView
from lab.session.context import LabContext
from lab.tenants.removal.footprint import reserved
from lab.tools.processes import processes_naming

Json = dict[str, Any]

SYNCED_CLUSTER_WIDE = ("PriorityClass", "RuntimeClass", "StorageClass", "IngressClass", "PersistentVolume")
"""Cluster-scoped kinds that ``sync.toHost`` can make on the host; they carry ``marker`` in MANAGED_BY_LABEL."""

MARKED = ("CustomResourceDefinition", "Queue.scheduling.run.ai")
"""Kinds that the lab marks with NODE_LABEL where it makes them for one tenant."""

_SYNCED = (
    "Pod",
    "Service",
    "ConfigMap",
    "Secret",
    "PersistentVolumeClaim",
    "Endpoints",
    "EndpointSlice",
    "Ingress",
    "NetworkPolicy",
    "ServiceAccount",
)
_ROLES = ("ClusterRole", "ClusterRoleBinding")
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_AT_ONCE = 8


def leftovers(ctx: LabContext, tenant_name: str, *, groups: Collection[str] = ()) -> tuple[str, ...]:
    """What there is of a tenant, one line each; empty is the proof that it is gone.

    Args:
        ctx: the lab.
        tenant_name: the tenant.
        groups: GPU groups of the host's KAI that only this tenant used, known from before; their reservation pods
            are told. They carry no mark of their tenant.

    Raises:
        ApiFailed: the cluster cannot be read.
    """
    return (*in_cluster(ctx.cluster(), tenant_name, groups), *on_machine(ctx, tenant_name))


def in_cluster(cluster: Cluster, name: str, groups: Collection[str] = ()) -> tuple[str, ...]:
    """What is left on the host cluster, in namespaces and cluster-wide."""
    tenant = _Tenant(cluster, name)
    namespaced: list[Callable[[], list[str]]] = [tenant.namespace]
    namespaced += [partial(tenant.synced, kind) for kind in _SYNCED]
    return _all([*namespaced, *_cluster_wide(tenant), partial(tenant.reservations, groups)])


def cluster_scope(cluster: Cluster, name: str) -> tuple[str, ...]:
    """What is left cluster-wide only."""
    return _all(_cluster_wide(_Tenant(cluster, name)))


def on_machine(ctx: LabContext, name: str) -> tuple[str, ...]:
    """What is left on this machine: its kubeconfig, entries of the lab's journal, processes that use its kubeconfig."""
    kubeconfig = ctx.paths.tenant_kubeconfig(name)
    lines = [f"file {kubeconfig}"] if kubeconfig.exists() else []
    lines += [f"journal entry {kind} {thing}" for kind, thing in journalled(ctx, name)]
    return (*lines, *(f"process {pid}: {line}" for pid, line in processes_naming(kubeconfig)))


def journalled(ctx: LabContext, name: str) -> tuple[tuple[str, str], ...]:
    """Kind and name of what the journal says is owned for a tenant.

    A port that was given back keeps the step that took it, and is nobody's.
    """
    steps = {f"{step}:{name}" for step in ("tenant", "kai", "queues")}
    named = {("port", name), ("namespace", tenant_namespace(name)), ("file", str(ctx.paths.tenant_kubeconfig(name)))}
    return tuple(
        (owned.kind, owned.name)
        for owned in ctx.journal.owned()
        if (owned.kind, owned.name) in named or (owned.kind != "port" and owned.step in steps)
    )


def marker(name: str) -> str:
    """The value of MANAGED_BY_LABEL on cluster-scoped objects (MarkerLabelCluster in pkg/util/translate)."""
    whole = f"{tenant_namespace(name)}-x-{name}"
    if len(whole) <= 63:
        return whole
    return f"{whole[:52]}-{hashlib.sha256(whole.encode()).hexdigest()[:10]}".replace(".-", "-")


def role_names(name: str) -> tuple[str, ...]:
    """Names of the tenant's ClusterRole and of its binding (chart/templates/_helper.tpl)."""
    tail = f"{name}-v-{tenant_namespace(name)}"
    return tuple(f"{head}-{tail}"[:63].removesuffix("-") for head in ("vc", "vc-mn"))


def marked_nodes(cluster: Cluster, name: str) -> list[Json]:
    """Nodes that carry the tenant's label or its taint."""
    taint = f"{NODE_LABEL}={name}:"
    return [
        node
        for node in cluster.list("Node")
        for view in [NodeView.of(node)]
        if view.labels.get(NODE_LABEL) == name or any(one.startswith(taint) for one in view.taints)
    ]


@dataclass(frozen=True)
class _Tenant:
    """What to look for; each method looks for one thing."""

    cluster: Cluster
    name: str

    @property
    def space(self) -> str:
        return tenant_namespace(self.name)

    def namespace(self) -> list[str]:
        found = self.cluster.get("Namespace", self.space)
        phase = ((found or {}).get("status") or {}).get("phase", "")
        return [] if found is None else [f"Namespace {self.space}" + (f" ({phase})" if phase else "")]

    def synced(self, kind: str) -> list[str]:
        """Synced objects outside the tenant's namespace; those inside go or stay with it."""
        found = self.cluster.list(kind, None, f"{MANAGED_BY_LABEL}={self.name}")
        spaces = {doc["metadata"].get("namespace", "") for doc in found} - {self.space}
        strangers = {space for space in spaces if self._another(space)}
        return _titles(kind, (doc for doc in found if doc["metadata"].get("namespace") in spaces - strangers))

    def _another(self, space: str) -> bool:
        """Whether a vCluster of the same name, which is not the lab's, lives in a namespace."""
        service = self.cluster.get("Service", self.name, space) or {}
        return bool(((service.get("metadata") or {}).get("labels") or {}).get("app") == "vcluster")

    def roles(self, kind: str) -> list[str]:
        known = role_names(self.name)
        labelled = self.cluster.list(kind, None, f"app=vcluster,release={self.name}")
        found = {doc["metadata"]["name"]: doc for doc in labelled if not self._of_another(doc["metadata"]["name"])}
        for one in known:
            if (doc := self.cluster.get(kind, one)) is not None:
                found[one] = doc
        if kind == "ClusterRoleBinding":
            for doc in self.cluster.list(kind):
                if any(subject.get("namespace") == self.space for subject in doc.get("subjects") or []):
                    found[doc["metadata"]["name"]] = doc
        return _titles(kind, (found[key] for key in sorted(found)))

    def _of_another(self, role: str) -> bool:
        """Whether a role belongs to a vCluster of the same name in another namespace."""
        head, cut, space = role.partition("-v-")
        return bool(cut) and head in (f"vc-{self.name}", f"vc-mn-{self.name}") and not self.space.startswith(space)

    def webhooks(self, kind: str) -> list[str]:
        return [
            f"{kind} {doc['metadata']['name']} calls a Service in {self.space}"
            for doc in self.cluster.list(kind)
            if any(_backend(hook.get("clientConfig")) == self.space for hook in doc.get("webhooks") or [])
        ]

    def api_services(self) -> list[str]:
        return [
            f"APIService {doc['metadata']['name']} is served from {self.space}"
            for doc in self.cluster.list("APIService")
            if _backend(doc.get("spec")) == self.space
        ]

    def synced_cluster_wide(self, kind: str) -> list[str]:
        return _titles(kind, self.cluster.list(kind, None, f"{MANAGED_BY_LABEL}={marker(self.name)}"))

    def volumes(self) -> list[str]:
        """Volumes that a claim of the tenant was bound to: with reclaim policy Retain they stay."""
        return [
            f"PersistentVolume {doc['metadata']['name']} was claimed from {self.space}"
            for doc in self.cluster.list("PersistentVolume")
            if ((doc.get("spec") or {}).get("claimRef") or {}).get("namespace") == self.space
        ]

    def marked(self, kind: str) -> list[str]:
        return _titles(kind.partition(".")[0], self.cluster.list(kind, None, f"{NODE_LABEL}={self.name}"))

    def nodes(self) -> list[str]:
        return [
            f"Node {doc['metadata']['name']} is marked {NODE_LABEL}={self.name}"
            for doc in marked_nodes(self.cluster, self.name)
        ]

    def reservations(self, groups: Collection[str]) -> list[str]:
        if not groups:
            return []
        found = reserved(self.cluster.list("Pod", RESERVATION_APP), groups)
        return [f"Pod {RESERVATION_APP}/{name} reserves a GPU for it" for name in found]


def _cluster_wide(tenant: _Tenant) -> list[Callable[[], list[str]]]:
    return [
        *(partial(tenant.roles, kind) for kind in _ROLES),
        *(partial(tenant.webhooks, kind) for kind in _WEBHOOKS),
        tenant.api_services,
        *(partial(tenant.synced_cluster_wide, kind) for kind in SYNCED_CLUSTER_WIDE),
        tenant.volumes,
        *(partial(tenant.marked, kind) for kind in MARKED),
        tenant.nodes,
    ]


def _all(looks: list[Callable[[], list[str]]]) -> tuple[str, ...]:
    """Look for everything at the same time; the lines keep the order of the looks."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda look: look(), looks))
    return tuple(dict.fromkeys(line for lines in found for line in lines))


def _titles(kind: str, docs: Iterable[Json]) -> list[str]:
    return [
        f"{kind} {'/'.join(part for part in (doc['metadata'].get('namespace'), doc['metadata']['name']) if part)}"
        for doc in docs
    ]


def _backend(client: Json | None) -> str:
    """The namespace of the Service behind a webhook or an aggregated API."""
    return str((((client or {}).get("service")) or {}).get("namespace", ""))
