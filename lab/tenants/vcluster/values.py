"""Values and images of a tenant's vCluster, from the lab file. Pure."""

from __future__ import annotations

from typing import Any

from lab.config import LabSpec, TenantSpec, tenant_nodes
from lab.config.labels import NODE_LABEL
from lab.gpu.pools import RUNTIME_CLASS
from lab.kai import lines
from lab.steps.cluster.config import has_gpus
from lab.steps.helm_release import base_values, merged, value_at
from lab.tenants.vcluster.access import Port, context_name, server_of
from lab.tenants.vcluster.quota import quota_values

CHART = "vcluster"
"""Name of the chart in the lab's supply."""

ACCESS_KEYS = (
    "controlPlane.service.spec.type",
    "controlPlane.service.httpsNodePort",
    "exportKubeConfig.server",
    "exportKubeConfig.context",
)
"""Values that the lab sets itself, because the way to the tenant depends on them."""


def tenant_values(tenant: TenantSpec, *, own_nodes: bool = False) -> dict[str, Any]:
    """Base values of the tenant's mode, its versions, nodes and quota, and ``values`` of the lab file merged last.

    Args:
        tenant: as in the lab file.
        own_nodes: whether it has nodes of its own (``lab.spec.tenant_nodes``).
    """
    versions = {
        "controlPlane": {
            "statefulSet": {"image": {"tag": tenant.vcluster}},
            "distro": {"k8s": {"version": f"v{tenant.kubernetes}"}},
        }
    }
    nodes = node_values(tenant.name) if own_nodes else {}
    return merged(base_values("vcluster", tenant.mode), versions, nodes, quota_values(tenant.quota), tenant.values)


def node_values(tenant: str) -> dict[str, Any]:
    """What keeps a tenant on nodes of its own, which carry its label and its taint.

    vCluster syncs nodes by the selector, and gives pods that have no node yet the same labels as their nodeSelector
    (pkg/controllers/resources/pods/syncer.go). What is tolerated anyway it takes from the taints of the nodes that it
    shows (pkg/controllers/resources/nodes/syncer.go). Its control plane stays off those nodes where there are others.
    """
    taint = {"key": NODE_LABEL, "operator": "Equal", "value": tenant, "effect": "NoSchedule"}
    nobodys = {"matchExpressions": [{"key": NODE_LABEL, "operator": "DoesNotExist"}]}
    elsewhere = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": nobodys}]}
    return {
        "controlPlane": {
            "statefulSet": {"scheduling": {"tolerations": [taint], "affinity": {"nodeAffinity": elsewhere}}}
        },
        "sync": {
            "fromHost": {"nodes": {"enabled": True, "selector": {"labels": {NODE_LABEL: tenant}}}},
            "toHost": {"pods": {"enforceTolerations": [own_toleration(tenant)]}},
        },
    }


def runtime_values(spec: LabSpec, tenant: TenantSpec) -> dict[str, Any]:
    """The RuntimeClass of all pods of a tenant whose KAI may be of a line that names none for its reservation pods.

    Those lines take NVIDIA's runtime for the default one of the nodes (seen with 0.7.11: the reservation pod ends with
    ERROR_LIBRARY_NOT_FOUND). It goes by the tenant's Kubernetes, not by its KAI: a KAI that is changed later must find
    it, and these values cannot change without a new control plane.
    """
    if tenant.mode != "own-kai" or not has_gpus(spec):
        return {}
    by_node = [line for line in lines().values() if line.reservation_class == "node"]
    if not any(line.runs_on(tenant.kubernetes) for line in by_node):
        return {}
    return {"sync": {"toHost": {"pods": {"runtimeClassName": RUNTIME_CLASS}}}}


def own_toleration(tenant: str) -> str:
    """The toleration of a tenant's own nodes, as vCluster writes it."""
    return f"{NODE_LABEL}={tenant}:NoSchedule"


def access_values(spec: LabSpec, tenant: TenantSpec, port: Port) -> dict[str, Any]:
    """What makes the tenant reachable from this machine, by a port that kind publishes on 127.0.0.1."""
    return {
        "controlPlane": {"service": {"spec": {"type": "NodePort"}, "httpsNodePort": port.node}},
        "exportKubeConfig": {"server": server_of(port), "context": context_name(spec.name, tenant.name)},
    }


def release_values(spec: LabSpec, tenant: TenantSpec, port: Port) -> dict[str, Any]:
    """The values the chart is installed with."""
    own_nodes = tenant.name in tenant_nodes(spec)
    return merged(
        runtime_values(spec, tenant), tenant_values(tenant, own_nodes=own_nodes), access_values(spec, tenant, port)
    )


def tenant_images(tenant: TenantSpec) -> tuple[str, ...]:
    """The images of a tenant's control plane and DNS, as full references."""
    values = tenant_values(tenant)
    control = value_at(values, "controlPlane.statefulSet.image") or {}
    distro = value_at(values, "controlPlane.distro.k8s.image") or {}
    registry = value_at(values, "controlPlane.advanced.defaultImageRegistry")
    kubernetes = {"registry": "ghcr.io", "repository": "loft-sh/kubernetes", **distro}
    kubernetes["tag"] = value_at(values, "controlPlane.distro.k8s.version") or kubernetes.get("tag")
    found = [_reference(control, registry), _reference(kubernetes, registry)]
    dns = value_at(values, "controlPlane.coredns.deployment.image")
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
