"""Leftovers of a tenant: in its namespace, cluster-wide, on nodes, and on this machine. Read only.

The places are those of vCluster 0.36.1 (chart/templates, pkg/util/translate). Deleting the namespace alone leaves its
ClusterRole and binding; uninstalling its release alone leaves every synced object with ``setOwner: false``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from lab.kai.names import RESERVATION_APP
from lab.kube import Cluster
from lab.kube.describe import title_of
from lab.kube.ownership import helm_namespace
from lab.objects.fields import labels_of, parts
from lab.objects.isolation_labels import NODE_LABEL, control_plane, tenant_namespace
from lab.objects.synced import MANAGED_BY_LABEL
from lab.session.context import LabContext
from lab.tenants.isolation.dedicated_nodes import marked_nodes
from lab.tenants.removal.footprint import reservation_pods
from lab.tools.processes import processes_naming

Json = dict[str, Any]
Search = Callable[[], list[str]]

SYNCED_CLUSTER_WIDE = ("PriorityClass", "RuntimeClass", "StorageClass", "IngressClass", "PersistentVolume")
"""Cluster-scoped kinds that ``sync.toHost`` can create on the host; they carry ``marker`` in MANAGED_BY_LABEL."""

MARKED = ("CustomResourceDefinition", "Queue.scheduling.run.ai")
"""Kinds that carry NODE_LABEL where the lab creates them for one tenant."""

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
_WORKERS = 8


def in_cluster(cluster: Cluster, name: str, groups: Collection[str] = ()) -> tuple[str, ...]:
    """Leftovers on the host cluster, in namespaces and cluster-wide, one line each. Raises ApiFailed.

    ``groups`` are the GPU groups of the host's KAI that only this tenant used: their reservation pods carry no mark of
    the tenant.
    """
    tenant = _Tenant(cluster, name)
    synced = [partial(tenant.synced, kind) for kind in _SYNCED]
    return _search([tenant.namespace, *synced, *tenant.cluster_wide(), partial(tenant.reservations, groups)])


def cluster_scope(cluster: Cluster, name: str) -> tuple[str, ...]:
    """Cluster-wide leftovers only."""
    return _search(_Tenant(cluster, name).cluster_wide())


def on_machine(ctx: LabContext, name: str, folders: Iterable[str] = ()) -> tuple[str, ...]:
    """Leftovers on this machine: kubeconfig, volumes' ``folders``, journal entries, and kailab's processes on it."""
    kubeconfig = ctx.paths.tenant_kubeconfig(name)
    lines = [f"file {kubeconfig}"] if kubeconfig.exists() else []
    lines += [f"directory {path}" for folder in folders if (path := ctx.paths.volumes / folder).exists()]
    lines += [f"journal entry {kind} {thing}" for kind, thing in journal_entries(ctx, name)]
    named = (kubeconfig, ctx.paths.tenant_port_forward(name))
    lines += [f"process {one.pid}: {one.line}" for path in named for one in processes_naming(path) if one.started]
    return tuple(lines)


def journal_entries(ctx: LabContext, name: str) -> tuple[tuple[str, str], ...]:
    """Kind and name of a tenant's entries in the journal.

    A released port keeps the step that claimed it, so ports count by name only.
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
    """Names of the tenant's ClusterRole and its binding (chart/templates/_helper.tpl)."""
    tail = f"{name}-v-{tenant_namespace(name)}"
    return tuple(f"{head}-{tail}"[:63].removesuffix("-") for head in ("vc", "vc-mn"))


def own_roles(cluster: Cluster, kind: str, name: str) -> list[Json]:
    """Those of ``role_names`` that Helm created for the tenant; one of the same name may be of others."""
    found = (cluster.get(kind, role) for role in role_names(name))
    return [doc for doc in found if doc and helm_namespace(doc) == tenant_namespace(name)]


@dataclass(frozen=True)
class _Tenant:
    """Searches for a tenant's objects; each method returns the lines of one search."""

    cluster: Cluster
    name: str

    @property
    def space(self) -> str:
        return tenant_namespace(self.name)

    def cluster_wide(self) -> list[Search]:
        return [
            *(partial(self.roles, kind) for kind in _ROLES),
            *(partial(self.references, kind, "calls a Service in") for kind in _WEBHOOKS),
            partial(self.references, "APIService", "is served from"),
            *(partial(self.labelled, kind, f"{MANAGED_BY_LABEL}={marker(self.name)}") for kind in SYNCED_CLUSTER_WIDE),
            partial(self.references, "PersistentVolume", "was claimed from"),
            *(partial(self.labelled, kind, f"{NODE_LABEL}={self.name}") for kind in MARKED),
            self.nodes,
        ]

    def namespace(self) -> list[str]:
        found = self.cluster.get("Namespace", self.space)
        if found is None:
            return []
        phase = parts(found)[2].get("phase")
        return [f"Namespace {self.space}" + (f" ({phase})" if phase else "")]

    def synced(self, kind: str) -> list[str]:
        """Synced objects outside the tenant's namespace; those inside go with it."""
        found = self.cluster.list(kind, None, f"{MANAGED_BY_LABEL}={self.name}")
        spaces = {doc["metadata"].get("namespace", "") for doc in found} - {self.space}
        foreign = {space for space in spaces if self._is_foreign(space)}
        return _titles(kind, (doc for doc in found if doc["metadata"].get("namespace") in spaces - foreign))

    def _is_foreign(self, space: str) -> bool:
        """Whether a vCluster of the same name, which is not the lab's, runs in a namespace."""
        return labels_of(parts(self.cluster.get("Service", self.name, space) or {})[0]).get("app") == "vcluster"

    def roles(self, kind: str) -> list[str]:
        labelled = self.cluster.list(kind, None, control_plane(self.name))
        found = {doc["metadata"]["name"]: doc for doc in labelled if not self._is_foreign_role(doc["metadata"]["name"])}
        found |= {doc["metadata"]["name"]: doc for doc in own_roles(self.cluster, kind, self.name)}
        if kind == "ClusterRoleBinding":
            for doc in self.cluster.list(kind):
                if any(subject.get("namespace") == self.space for subject in doc.get("subjects") or []):
                    found[doc["metadata"]["name"]] = doc
        return _titles(kind, (found[name] for name in sorted(found)))

    def _is_foreign_role(self, role: str) -> bool:
        """Whether a role belongs to a vCluster of the same name in another namespace."""
        head, separator, space = role.partition("-v-")
        own = head in (f"vc-{self.name}", f"vc-mn-{self.name}")
        return bool(separator) and own and not self.space.startswith(space)

    def references(self, kind: str, how: str) -> list[str]:
        """Objects that refer to the tenant's namespace: volumes too, which reclaim policy Retain keeps."""
        found = (doc for doc in self.cluster.list(kind) if self.space in _namespaces(doc))
        return [f"{kind} {doc['metadata']['name']} {how} {self.space}" for doc in found]

    def labelled(self, kind: str, labels: str) -> list[str]:
        return _titles(kind.partition(".")[0], self.cluster.list(kind, None, labels))

    def nodes(self) -> list[str]:
        names = marked_nodes(self.cluster, self.name)
        return [f"Node {name} is marked {NODE_LABEL}={self.name}" for name in names]

    def reservations(self, groups: Collection[str]) -> list[str]:
        found = reservation_pods(self.cluster.list("Pod", RESERVATION_APP), groups) if groups else ()
        return [f"Pod {RESERVATION_APP}/{name} reserves a GPU for it" for name in found]


def _search(searches: list[Search]) -> tuple[str, ...]:
    """Run all searches in parallel; the lines keep their order."""
    with ThreadPoolExecutor(_WORKERS) as pool:
        found = list(pool.map(lambda search: search(), searches))
    return tuple(dict.fromkeys(line for lines in found for line in lines))


def _titles(kind: str, docs: Iterable[Json]) -> list[str]:
    return [title_of({**doc, "kind": kind}) for doc in docs]


def _namespaces(doc: Json) -> set[str]:
    """Namespaces of the Services behind a webhook configuration or an APIService, or of a volume's claim."""
    spec = parts(doc)[1]
    clients = [spec, *(hook.get("clientConfig") or {} for hook in doc.get("webhooks") or [])]
    references = [spec.get("claimRef"), *(client.get("service") for client in clients)]
    return {reference.get("namespace", "") for reference in references if reference}
