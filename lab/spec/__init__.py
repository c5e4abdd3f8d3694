"""The lab file: models, loader, JSON Schema, shipped profiles."""

from lab.spec.loader import load_profile, load_spec
from lab.spec.models import ClusterSpec, GpuSpec, KaiSpec, LabSpec, QueueResource, QueueSpec, SupplySpec, TenantSpec

__all__ = [
    "ClusterSpec", "GpuSpec", "KaiSpec", "LabSpec", "QueueResource", "QueueSpec", "SupplySpec", "TenantSpec",
    "load_profile", "load_spec",
]
