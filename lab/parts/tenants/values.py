"""Values and images of a tenant's vCluster, from the lab file. Pure."""

from __future__ import annotations

from typing import Any

from lab.parts.releases import base_values, merged, value_at
from lab.parts.tenants.access import Port, context_name, server_of
from lab.spec import LabSpec, TenantSpec

CHART = "vcluster"
"""Name of the chart in the lab's supply."""

ACCESS_KEYS = (
    "controlPlane.service.spec.type",
    "controlPlane.service.httpsNodePort",
    "exportKubeConfig.server",
    "exportKubeConfig.context",
)
"""Values that the lab sets itself, because the way to the tenant depends on them."""


def tenant_values(tenant: TenantSpec) -> dict[str, Any]:
    """Base values of the tenant's mode, its versions, and ``values`` of the lab file merged last.

    Raises:
        SpecError: a mode of a later release.
    """
    from lab.parts.tenants.rules import refuse_own_kai

    refuse_own_kai(tenant)
    versions = {
        "controlPlane": {
            "statefulSet": {"image": {"tag": tenant.vcluster}},
            "distro": {"k8s": {"version": f"v{tenant.kubernetes}"}},
        }
    }
    return merged(base_values("vcluster", tenant.mode), versions, tenant.values)


def access_values(spec: LabSpec, tenant: TenantSpec, port: Port) -> dict[str, Any]:
    """What makes the tenant reachable from this machine, by a port that kind publishes on 127.0.0.1."""
    return {
        "controlPlane": {"service": {"spec": {"type": "NodePort"}, "httpsNodePort": port.node}},
        "exportKubeConfig": {"server": server_of(port), "context": context_name(spec.name, tenant.name)},
    }


def release_values(spec: LabSpec, tenant: TenantSpec, port: Port) -> dict[str, Any]:
    """The values the chart is installed with."""
    return merged(tenant_values(tenant), access_values(spec, tenant, port))


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
