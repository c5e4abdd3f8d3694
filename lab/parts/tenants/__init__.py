"""Tenants: vClusters on the lab's own cluster, by Helm, with validated values and a kubeconfig each."""

from __future__ import annotations

from lab.parts.tenants.access import Port, find_port, tenant_port
from lab.parts.tenants.rules import validate_tenants
from lab.parts.tenants.steps import Tenant
from lab.parts.tenants.values import CHART, tenant_images
from lab.spec import LabSpec

__all__ = [
    "Port",
    "Tenant",
    "charts",
    "find_port",
    "images",
    "tenant_port",
    "validate_tenants",
]


def images(spec: LabSpec) -> tuple[str, ...]:
    """The images all tenants need in the nodes, as full references."""
    return tuple(dict.fromkeys(image for tenant in spec.tenants for image in tenant_images(tenant)))


def charts(spec: LabSpec) -> tuple[str, ...]:
    """The charts the tenants need, by their name in the supply."""
    return (CHART,) if spec.tenants else ()
