"""Values and images of a tenant's vCluster, from the lab file. Pure."""

from __future__ import annotations

from typing import Any

from lab.config import LabSpec, TenantSpec, tenant_nodes
from lab.gpu.pools import runtime_class
from lab.kai import lines
from lab.objects.isolation_labels import NODE_LABEL
from lab.steps.helm_release import base_values, merged, value_at
from lab.tenants.isolation.dedicated_nodes import taint
from lab.tenants.vcluster.access import Port, context_name, server_of
from lab.tenants.vcluster.quota import quota_values

CHART = "vcluster"
"""Name of the chart in the lab's supply."""

CLAIM = "controlPlane.statefulSet.persistence.volumeClaim.enabled"
"""Whether a tenant's data is in a volume of its own; otherwise it is lost with the control-plane pod."""

ACCESS_KEYS = (
    "controlPlane.service.spec.type",
    "controlPlane.service.httpsNodePort",
    "exportKubeConfig.server",
    "exportKubeConfig.context",
)
"""Values that only the lab sets, because access to the tenant depends on them."""


def tenant_values(tenant: TenantSpec, *, dedicated: bool = False) -> dict[str, Any]:
    """Values of the tenant's mode, versions, quota and, if ``dedicated``, nodes, overridden by its own ``values``."""
    versions = {
        "controlPlane": {
            "statefulSet": {"image": {"tag": tenant.vcluster}},
            "distro": {"k8s": {"version": f"v{tenant.kubernetes}"}},
        }
    }
    nodes = _node_values(tenant.name) if dedicated else {}
    return merged(base_values("vcluster", tenant.mode), versions, nodes, quota_values(tenant.quota), tenant.values)


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
    """A RuntimeClass for all pods of a tenant whose KAI may be of a line that sets none on its reservation pods.

    Those lines expect NVIDIA's runtime to be the default of the nodes (measured with 0.7.11: the reservation pod ends
    with ERROR_LIBRARY_NOT_FOUND). The tenant's Kubernetes decides, not its KAI: a later version of KAI must find the
    class, and a change of these values needs a new control plane.
    """
    if tenant.mode != "own-kai" or not (name := runtime_class(spec)):
        return {}
    if not any(line.reservation_class == "node" and line.runs_on(tenant.kubernetes) for line in lines().values()):
        return {}
    return {"sync": {"toHost": {"pods": {"runtimeClassName": name}}}}


def release_values(spec: LabSpec, tenant: TenantSpec, port: Port) -> dict[str, Any]:
    """The values of the tenant's Helm release, with access through a port that kind publishes on 127.0.0.1."""
    access = {
        "controlPlane": {"service": {"spec": {"type": "NodePort"}, "httpsNodePort": port.node}},
        "exportKubeConfig": {"server": server_of(port), "context": context_name(spec.name, tenant.name)},
    }
    own = tenant_values(tenant, dedicated=tenant.name in tenant_nodes(spec))
    return merged(_runtime_values(spec, tenant), own, access)


def tenant_images(tenant: TenantSpec) -> tuple[str, ...]:
    """The images of a tenant's control plane and DNS, as full references."""
    values = tenant_values(tenant)
    registry = value_at(values, "controlPlane.advanced.defaultImageRegistry")
    distro = value_at(values, "controlPlane.distro.k8s.image") or {}
    kubernetes = {"registry": "ghcr.io", "repository": "loft-sh/kubernetes", **distro}
    kubernetes["tag"] = value_at(values, "controlPlane.distro.k8s.version") or kubernetes.get("tag")
    control = value_at(values, "controlPlane.statefulSet.image") or {}
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
