"""API paths of kinds: a table of the kinds that kailab uses, and API discovery for all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from lab.errors import ApiFailed

# apiVersion, kind, plural, and "cluster" for kinds without a namespace.
# KAI's rows are valid for KAI 0.7.11 to 0.17.0 (deployments/kai-scheduler/crds).
_TABLE = """
v1                               Pod                              pods
v1                               Service                          services
v1                               Endpoints                        endpoints
v1                               ConfigMap                        configmaps
v1                               Secret                           secrets
v1                               Event                            events
v1                               ServiceAccount                   serviceaccounts
v1                               PersistentVolumeClaim            persistentvolumeclaims
v1                               ResourceQuota                    resourcequotas
v1                               LimitRange                       limitranges
v1                               Node                             nodes                             cluster
v1                               Namespace                        namespaces                        cluster
v1                               PersistentVolume                 persistentvolumes                 cluster
apps/v1                          Deployment                       deployments
apps/v1                          DaemonSet                        daemonsets
apps/v1                          StatefulSet                      statefulsets
apps/v1                          ReplicaSet                       replicasets
batch/v1                         Job                              jobs
coordination.k8s.io/v1           Lease                            leases
discovery.k8s.io/v1              EndpointSlice                    endpointslices
networking.k8s.io/v1             NetworkPolicy                    networkpolicies
networking.k8s.io/v1             Ingress                          ingresses
networking.k8s.io/v1             IngressClass                     ingressclasses                    cluster
rbac.authorization.k8s.io/v1     Role                             roles
rbac.authorization.k8s.io/v1     RoleBinding                      rolebindings
rbac.authorization.k8s.io/v1     ClusterRole                      clusterroles                      cluster
rbac.authorization.k8s.io/v1     ClusterRoleBinding               clusterrolebindings               cluster
node.k8s.io/v1                   RuntimeClass                     runtimeclasses                    cluster
storage.k8s.io/v1                StorageClass                     storageclasses                    cluster
scheduling.k8s.io/v1             PriorityClass                    priorityclasses                   cluster
resource.k8s.io/v1               ResourceClaim                    resourceclaims
apiextensions.k8s.io/v1          CustomResourceDefinition         customresourcedefinitions         cluster
apiregistration.k8s.io/v1        APIService                       apiservices                       cluster
admissionregistration.k8s.io/v1  ValidatingWebhookConfiguration   validatingwebhookconfigurations   cluster
admissionregistration.k8s.io/v1  MutatingWebhookConfiguration     mutatingwebhookconfigurations     cluster
admissionregistration.k8s.io/v1  ValidatingAdmissionPolicy        validatingadmissionpolicies       cluster
admissionregistration.k8s.io/v1  ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings cluster
authentication.k8s.io/v1         SelfSubjectReview                selfsubjectreviews                cluster
authorization.k8s.io/v1          SelfSubjectAccessReview          selfsubjectaccessreviews          cluster
scheduling.run.ai/v2alpha2       PodGroup                         podgroups
scheduling.run.ai/v1alpha2       BindRequest                      bindrequests
scheduling.run.ai/v2             Queue                            queues                            cluster
kai.scheduler/v1                 Config                           configs                           cluster
kai.scheduler/v1                 SchedulingShard                  schedulingshards                  cluster
kai.scheduler/v1alpha1           Topology                         topologies                        cluster
"""


@dataclass(frozen=True)
class Resource:
    """A kind as the API serves it."""

    group: str
    """API group; empty for the core group."""
    version: str
    kind: str
    plural: str
    """The name in paths."""
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_kind(self) -> str:
        """The kind with its group, unique in the cluster: ``Queue.scheduling.run.ai``, ``Pod``."""
        return f"{self.kind}.{self.group}".rstrip(".")

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The API path of a collection or, with ``name``, of one object. Raises ApiFailed without a required namespace.

        Without ``namespace``, a collection is that of all namespaces.
        """
        if self.namespaced and name is not None and not namespace:
            raise ApiFailed(
                f"{self.kind} {name}: the namespace is missing",
                fix="pass a namespace; only cluster-scoped kinds have none",
            )
        parts = ["apis" if self.group else "api", self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name is not None:
            parts.append(quote(name, safe=":"))
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(parts)

    def title(self, namespace: str | None = None, name: str | None = None) -> str:
        """An object or a collection of this kind in messages."""
        where = namespace if self.namespaced else None
        if name is not None:
            return f"{self.kind} {where}/{name}" if where else f"{self.kind} {name}"
        return f"{self.kind} objects in {where}" if where else f"{self.kind} objects"


def _rows(table: str) -> tuple[Resource, ...]:
    rows = []
    for line in table.strip().splitlines():
        api_version, kind, plural, *scope = line.split()
        group, _, version = api_version.rpartition("/")
        rows.append(Resource(group, version, kind, plural, namespaced=not scope))
    return tuple(rows)


KNOWN = _rows(_TABLE)
"""The kinds that do not need discovery."""

POD = next(resource for resource in KNOWN if resource.kind == "Pod")


class RestMapper:
    """Finds the Resource of a kind, and caches what it discovers.

    ``read`` gets a path of the API as JSON, or None where the server does not have it.
    """

    def __init__(self, read: Callable[[str], dict[str, Any] | None]) -> None:
        self._read = read
        self._found: dict[tuple[str, str], Resource] = {}

    def named(self, kind: str) -> Resource:
        """The resource of ``Kind`` or ``Kind.group``.

        Raises ApiFailed when the server does not have the kind (status 404), or when several groups have it.
        """
        name, _, group = kind.partition(".")
        for resource in KNOWN:
            if resource.kind == name and group in ("", resource.group):
                return resource
        # list() is atomic: other threads may add to the cache.
        found = [r for r in list(self._found.values()) if r.kind == name and group in ("", r.group)]
        found = found or [r for v in self._preferred(group) for r in self._served(v) if r.kind == name]
        groups = sorted({resource.group for resource in found})
        if len(groups) > 1:
            raise ApiFailed(
                f"{len(groups)} API groups have a kind {name}: {', '.join(groups)}",
                fix=f"add the group: {name}.{groups[0]}",
            )
        if not found:
            raise missing(kind)
        return self._cache(found[0])

    def listable(self) -> list[Resource]:
        """Every kind that the server can list, in the preferred version of its group that has it.

        Skips aggregated APIs whose server is down. Raises ApiFailed.
        """
        found: dict[tuple[str, str], Resource] = {}
        for version in ("v1", *(v for group in self._groups() for v in _versions(group))):
            try:
                served = self._served(version, verb="list")
            except ApiFailed as error:
                if error.status != 503:
                    raise
                continue
            for resource in served:
                found.setdefault((resource.group, resource.kind), resource)
        return [self._cache(resource) for resource in found.values()]

    def kind_for(self, resource: str) -> str:
        """The ``Kind.group`` of a resource such as ``pods.`` or ``widgets.example.com`` in Kubernetes' messages.

        Raises ApiFailed when the server does not have the resource (status 404).
        """
        plural, _, group = resource.partition(".")
        found = next((r for r in KNOWN if (r.plural, r.group) == (plural, group)), None)
        if found is None:
            versions = self._preferred(group) if group else ["v1"]
            found = next((r for v in versions for r in self._served(v) if r.plural == plural), None)
        if found is None:
            raise missing(resource)
        return f"{found.kind}.{found.group}" if found.group else found.kind

    def of(self, doc: Mapping[str, Any]) -> Resource:
        """The resource of an object by its ``apiVersion`` and ``kind``.

        Raises ApiFailed when the document lacks these, or when the server does not have the kind (status 404).
        """
        api_version, kind = doc.get("apiVersion"), doc.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str) or not (api_version and kind):
            raise ApiFailed(
                f"not a Kubernetes object: apiVersion {api_version!r}, kind {kind!r}", fix="set apiVersion and kind"
            )
        group, _, version = api_version.rpartition("/")
        for resource in KNOWN:
            if (resource.group, resource.kind) == (group, kind):
                return replace(resource, version=version)
        found = self._found.get((api_version, kind))
        if found is None:
            found = next((r for r in self._served(api_version) if r.kind == kind), None)
        if found is None:
            raise missing(f"{kind} ({api_version})")
        return self._cache(found)

    def _cache(self, resource: Resource) -> Resource:
        self._found[resource.api_version, resource.kind] = resource
        return resource

    def _preferred(self, group: str) -> list[str]:
        """The preferred apiVersion of ``group``, or of every group."""
        if group:
            answer = self._read(f"/apis/{group}")
            return [answer["preferredVersion"]["groupVersion"]] if answer else []
        return ["v1", *(g["preferredVersion"]["groupVersion"] for g in self._groups())]

    def _groups(self) -> list[dict[str, Any]]:
        return (self._read("/apis") or {}).get("groups") or []

    def _served(self, api_version: str, verb: str = "") -> list[Resource]:
        group, _, version = api_version.rpartition("/")
        answer = self._read(f"/apis/{api_version}" if group else f"/api/{api_version}") or {}
        return [
            Resource(group, version, row["kind"], row["name"], bool(row["namespaced"]))
            for row in answer.get("resources", [])
            if "/" not in row["name"] and (not verb or verb in (row.get("verbs") or ()))
        ]


def _versions(group: Mapping[str, Any]) -> Iterable[str]:
    """Every apiVersion of a group, the preferred one first: KAI's group has each kind in one of three."""
    every = [group["preferredVersion"], *(group.get("versions") or [])]
    return dict.fromkeys(version["groupVersion"] for version in every)


def missing(kind: str) -> ApiFailed:
    """The error for a kind that the server does not have."""
    return ApiFailed(f"the API server has no kind {kind}", status=404, fix="install its CRD, or check the spelling")
