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
    SupplySpec,
)
from lab.spec.node_share import beside_host_kai, tenant_nodes, worker_names
from lab.spec.queue import QueueResource, QueueSpec
from lab.spec.schema import schema, schema_text
from lab.spec.template import init_text
from lab.spec.tenant import TenantQuota, TenantSpec

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
    "TenantQuota",
    "TenantSpec",
    "beside_host_kai",
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
    "tenant_nodes",
    "worker_names",
]
