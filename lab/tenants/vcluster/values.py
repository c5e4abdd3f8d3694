"""Values and images of a tenant's vCluster, from the lab file. Pure."""

from __future__ import annotations

from typing import Any

from lab.config import LabSpec, TenantSpec, tenant_nodes
from lab.gpu.pools import runtime_class
from lab.kai import line_of
from lab.objects.isolation_labels import NODE_LABEL, tenant_namespace
from lab.steps.helm_release import base_values, merged, value_at, with_value
from lab.supply.registry import mirrored, without_scheme
from lab.tenants.isolation.dedicated_nodes import taint
from lab.tenants.vcluster.access import Endpoint, context_name
from lab.tenants.vcluster.quota import quota_values

CHART = "vcluster"
"""Name of the chart in the lab's supply."""

CLAIM = "controlPlane.statefulSet.persistence.volumeClaim.enabled"
"""Whether a tenant's data is in a volume of its own; otherwise it is lost with the control-plane pod."""

_REGISTRY = "ghcr.io"
"""The chart's registry of the control plane's images."""

_DNS_IMAGE = "controlPlane.coredns.deployment.image"

ACCESS_KEYS = (
    "controlPlane.service.spec.type",
    "controlPlane.service.httpsNodePort",
    "exportKubeConfig.server",
    "exportKubeConfig.context",
)
"""Values that only the lab sets, because access to the tenant depends on them."""

STORAGE_CLASS = "controlPlane.statefulSet.persistence.volumeClaim.storageClass"
"""StorageClass of the tenant's volume; empty: the cluster's default one."""


_STORE = "--emulated-etcd-version=3.5.12"
"""The last etcd 3.5 without reliable progress notifications: the API server then lists from the database itself.

kine has them, but late: in a quiet second only at the end of it (polledRev in pkg/logstructured/sqllog/sql.go, read in
0.14.12 and 0.16.4; vCluster's images of Kubernetes 1.30 to 1.35 contain 0.14.5). kine has the argument since 0.12.
"""

REPLICAS = "controlPlane.statefulSet.highAvailability.replicas"
"""Number of control planes."""


def tenant_values(tenant: TenantSpec, *, dedicated: bool = False) -> dict[str, Any]:
    """Values of the tenant's mode, versions, quota and, if ``dedicated``, nodes, overridden by its own ``values``."""
    versions = {
        "controlPlane": {
            "statefulSet": {"image": {"tag": tenant.vcluster}},
            "distro": {"k8s": {"version": f"v{tenant.kubernetes}"}},
        }
    }
    nodes = _node_values(tenant.name) if dedicated else {}
    own = merged(base_values("vcluster", tenant.mode), versions, nodes, quota_values(tenant.quota), tenant.values)
    return merged(own, _quick_start(own))


def _quick_start(values: dict[str, Any]) -> dict[str, Any]:
    """Arguments with which the tenant answers sooner, above all after a start; its own come after them.

    Each controller fetches its own token before it starts: with the default of 20 requests per second the last one
    starts 4 s after the first, and vCluster waits for the default service account. The only control plane need not wait
    15 s for the lease of its dead self (vCluster always sets --leader-elect: pkg/k8s/k8s.go). With ``_STORE`` a list
    right after a change takes 6 ms instead of 0.7 s, and a start 3 s less (kine 0.16.4, Kubernetes 1.34.4).
    """
    alone = ["--leader-elect=false"] if value_at(values, REPLICAS) in (None, 1) else []
    arguments = {
        "controlPlane.distro.k8s.controllerManager": ["--kube-api-qps=200", "--kube-api-burst=400", *alone],
        "controlPlane.distro.k8s.scheduler": alone,
        "controlPlane.backingStore.database.embedded": [_STORE],
    }
    keys = {f"{component}.extraArgs": ours for component, ours in arguments.items()}
    fitting = {key: ours for key, ours in keys.items() if _takes_list(values, key)}
    return merged(*(with_value(key, [*ours, *(value_at(values, key) or [])]) for key, ours in fitting.items()))


def _takes_list(values: dict[str, Any], path: str) -> bool:
    """Whether a list fits at a path; what does not is left as it is, for the validation to name."""
    above = [path.rsplit(".", number)[0] for number in range(1, path.count(".") + 1)]
    maps = all(isinstance(value_at(values, one) or {}, dict) for one in above)
    return maps and isinstance(value_at(values, path) or [], list)


def _node_values(tenant: str) -> dict[str, Any]:
    """Values that keep a tenant on its dedicated nodes.

    vCluster syncs nodes by the selector, and adds its labels as nodeSelector to pods that have no node yet
    (pkg/controllers/resources/pods/syncer.go). It hides the taints that ``enforceTolerations`` tolerates from the nodes
    that it shows (pkg/controllers/resources/nodes/syncer.go). The control plane avoids these nodes if there are others.
    """
    toleration = {"key": NODE_LABEL, "operator": "Equal", "value": tenant, "effect": "NoSchedule"}
    shared = {"matchExpressions": [{"key": NODE_LABEL, "operator": "DoesNotExist"}]}
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": shared}]}
    return {
        "controlPlane": {
            "statefulSet": {"scheduling": {"tolerations": [toleration], "affinity": {"nodeAffinity": affinity}}}
        },
        "sync": {
            "fromHost": {"nodes": {"enabled": True, "selector": {"labels": {NODE_LABEL: tenant}}}},
            "toHost": {"pods": {"enforceTolerations": [taint(tenant)]}},
        },
    }


def _runtime_values(spec: LabSpec, tenant: TenantSpec) -> dict[str, Any]:
    """A RuntimeClass for all pods of a tenant whose KAI sets none on its reservation pods.

    Such a KAI expects NVIDIA's runtime to be the default of the nodes (measured with 0.7.11: the reservation pod ends
    with ERROR_LIBRARY_NOT_FOUND).
    """
    if not tenant.kai_version or line_of(tenant.kai_version).reservation_class != "node":
        return {}
    if not (name := runtime_class(spec)):
        return {}
    return {"sync": {"toHost": {"pods": {"runtimeClassName": name}}}}


def release_values(spec: LabSpec, tenant: TenantSpec, port: Endpoint | None) -> dict[str, Any]:
    """The values of the tenant's Helm release.

    ``port`` is one that kind publishes on 127.0.0.1; an existing cluster chooses the NodePort itself.
    """
    service: dict[str, Any] = {"spec": {"type": "NodePort"}}
    export = {"context": context_name(spec.name, tenant.name)}
    own = tenant_values(tenant, dedicated=tenant.name in tenant_nodes(spec))
    if not spec.cluster.own:
        own = merged(own, with_value(STORAGE_CLASS, value_at(tenant.values, STORAGE_CLASS) or ""))
        own = merged(own, _registries(spec, own), _pull_secrets(spec))
    elif port is not None:
        service["httpsNodePort"] = port.node_port
        export["server"] = port.server
    access = {"controlPlane": {"service": service}, "exportKubeConfig": export}
    return merged(_runtime_values(spec, tenant), own, access)


def first_claim(tenant: str, values: dict[str, Any]) -> dict[str, Any] | None:
    """The PersistentVolumeClaim of the first control plane, of the lab's StorageClass; None: it has none of that class.

    Its StatefulSet would create it together with the pod. A kubelet that sees the pod while the claim is not Bound yet
    tries again only after 10 s or more (seen in 1 of 12 starts, Kubernetes 1.34.4).
    """
    labs = base_values("vcluster", "storage")["metadata"]["name"]
    volume = value_at(values, "controlPlane.statefulSet.persistence") or {}
    wanted = volume.get("volumeClaim") or {}
    if volume.get("volumeClaimTemplates") or wanted.get("enabled") is not True or wanted.get("storageClass") != labs:
        return None
    size = {"requests": {"storage": wanted.get("size", "5Gi")}}
    spec = {"accessModes": wanted.get("accessModes", ["ReadWriteOnce"]), "storageClassName": labs, "resources": size}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"data-{tenant}-0", "namespace": tenant_namespace(tenant)},
        "spec": spec,
    }


def _registries(spec: LabSpec, values: dict[str, Any]) -> dict[str, Any]:
    """The images of the control plane and of DNS by the mirrors of the lab file, which nodes of others do not know."""
    mirrors = spec.supply.mirrors
    layers = []
    for path in ("controlPlane.statefulSet.image.registry", "controlPlane.distro.k8s.image.registry"):
        registry = str(value_at(values, path) or _REGISTRY)
        layers.append(with_value(path, without_scheme(mirrors[registry])) if registry in mirrors else {})
    dns = str(value_at(values, _DNS_IMAGE) or "")
    return merged(*layers, with_value(_DNS_IMAGE, mirrored(dns, mirrors)) if mirrored(dns, mirrors) != dns else {})


def _pull_secrets(spec: LabSpec) -> dict[str, Any]:
    """Pull secrets of the control plane, and of all pods that the tenant syncs."""
    secrets = {"imagePullSecrets": [{"name": name} for name in spec.supply.pull_secrets]}
    accounts = ("serviceAccount", "workloadServiceAccount")
    return {"controlPlane": {"advanced": dict.fromkeys(accounts, secrets)}} if spec.supply.pull_secrets else {}


def tenant_images(tenant: TenantSpec) -> tuple[str, ...]:
    """The images of a tenant's control plane and DNS, as full references."""
    values = tenant_values(tenant)
    registry = value_at(values, "controlPlane.advanced.defaultImageRegistry")
    distro = value_at(values, "controlPlane.distro.k8s.image") or {}
    kubernetes = {"registry": _REGISTRY, "repository": "loft-sh/kubernetes", **distro}
    kubernetes["tag"] = value_at(values, "controlPlane.distro.k8s.version") or kubernetes.get("tag")
    control = value_at(values, "controlPlane.statefulSet.image") or {}
    found = [_reference(control, registry), _reference(kubernetes, registry)]
    dns = value_at(values, _DNS_IMAGE)
    if dns and value_at(values, "controlPlane.coredns.enabled") is not False:
        found.append(f"{registry}/{dns}" if registry else dns)
    if value_at(values, "sync.toHost.pods.rewriteHosts.enabled"):
        image = value_at(values, "sync.toHost.pods.rewriteHosts.initContainer.image") or {}
        default = {"registry": "mirror.gcr.io", "repository": "library/alpine", "tag": "3.20"}
        found.append(_reference({**default, **image}, registry))
    return tuple(found)


def _reference(image: dict[str, Any], registry: str | None) -> str:
    host = registry or image.get("registry")
    name = f"{image.get('repository')}:{image.get('tag')}"
    return f"{host}/{name}" if host else name
