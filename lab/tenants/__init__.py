"""Tenants: vClusters on the lab's own cluster, by Helm, with validated values and a kubeconfig each."""

from __future__ import annotations

from lab.config import LabSpec
from lab.tenants.vcluster.access import Port, find_port, tenant_port
from lab.tenants.vcluster.validation import validate_tenants
from lab.tenants.vcluster.values import CHART, tenant_images
from lab.tenants.virtual_cluster import VirtualCluster

__all__ = ["Port", "VirtualCluster", "charts", "find_port", "images", "tenant_port", "validate_tenants"]


def images(spec: LabSpec) -> tuple[str, ...]:
    """The images all tenants need in the nodes, as full references."""
    return tuple(dict.fromkeys(image for tenant in spec.tenants for image in tenant_images(tenant)))


def charts(spec: LabSpec) -> tuple[str, ...]:
    """The charts the tenants need, by their name in the supply."""
    return (CHART,) if spec.tenants else ()
