"""The lab file: models, loader, JSON Schema, shipped profiles."""

from lab.config.gpu import GpuSpec, NodePool
from lab.config.loader import (
    DEFAULT_FILE,
    DEFAULT_PROFILE,
    dump_spec,
    load_dumped,
    load_profile,
    load_spec,
    profile_file,
    profile_names,
    profile_summary,
    resolve_spec,
)
from lab.config.models import LabSpec
from lab.config.node_assignment import beside_host_kai, tenant_nodes, worker_names
from lab.config.queue import QueueResource, QueueSpec
from lab.config.schema import SCHEMA_FILE, SCHEMA_ID, schema, schema_text
from lab.config.sections import ClusterSpec, InferenceSpec, KaiSpec
from lab.config.template import existing_text, init_text
from lab.config.tenant import TenantQuota, TenantSpec

__all__ = [
    "DEFAULT_FILE",
    "DEFAULT_PROFILE",
    "SCHEMA_FILE",
    "SCHEMA_ID",
    "ClusterSpec",
    "GpuSpec",
    "InferenceSpec",
    "KaiSpec",
    "LabSpec",
    "NodePool",
    "QueueResource",
    "QueueSpec",
    "TenantQuota",
    "TenantSpec",
    "beside_host_kai",
    "dump_spec",
    "existing_text",
    "init_text",
    "load_dumped",
    "load_profile",
    "load_spec",
    "profile_file",
    "profile_names",
    "profile_summary",
    "resolve_spec",
    "schema",
    "schema_text",
    "tenant_nodes",
    "worker_names",
]
