"""The lab file: models, loader, JSON Schema, shipped profiles."""

from lab.spec.gpu import GpuPool, GpuSpec, NodePool
from lab.spec.loader import (
    dump_spec,
    load_dumped,
    load_profile,
    load_spec,
    profile_file,
    profile_names,
    resolve_spec,
)
from lab.spec.models import (
    ClusterSpec,
    InferenceSpec,
    KaiSpec,
    LabSpec,
    QueueResource,
    QueueSpec,
    SupplySpec,
    TenantSpec,
)
from lab.spec.schema import schema, schema_text
from lab.spec.template import init_text

__all__ = [
    "ClusterSpec",
    "GpuPool",
    "GpuSpec",
    "InferenceSpec",
    "KaiSpec",
    "LabSpec",
    "NodePool",
    "QueueResource",
    "QueueSpec",
    "SupplySpec",
    "TenantSpec",
    "dump_spec",
    "init_text",
    "load_dumped",
    "load_profile",
    "load_spec",
    "profile_file",
    "profile_names",
    "resolve_spec",
    "schema",
    "schema_text",
]
