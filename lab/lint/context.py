"""The lint context of a lab, or of one of its tenants, from its lab file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lab.config import LabSpec, QueueSpec, TenantSpec, beside_host_kai, tenant_nodes
from lab.config.node_assignment import pools_by_worker
from lab.errors import SpecError
from lab.kai import line_of
from lab.lint.model import LintContext
from lab.lint.queues import RESOURCES, default_queues, fact_of
from lab.objects.isolation_labels import HOST_KAI
from lab.text import nearest

TENANT_QUEUES = (QueueSpec(name="default"), QueueSpec(name="test", parent="default"))
"""The queues of an own-kai tenant that names none (lab.tenants.vcluster.inner_lab)."""


def lint_context(spec: LabSpec, tenant: str = "", version: str = "") -> LintContext:
    """Return the context of a lab or a tenant. Its queues and those of KAI's chart are all queues.

    A tenant has its own KAI and queues, or the host's. ``version`` replaces the lab file's KAI version.

    Raises:
        SpecError: the tenant does not exist or has no KAI, or the version is older than all known ones.
    """
    if not tenant:
        label = HOST_KAI if beside_host_kai(spec) else {}
        return _context(spec, version or spec.kai.version, spec.queues, spec.kai.gpu_sharing, _shared(spec), label)
    found = _tenant(spec, tenant)
    nodes = tenant_nodes(spec).get(tenant)
    if found.mode == "own-kai":
        queues = found.queues or TENANT_QUEUES
        return _context(spec, version or str(found.kai_version), queues, found.gpu_sharing, nodes)
    return _context(spec, version or spec.kai.version, spec.queues, spec.kai.gpu_sharing, nodes or _shared(spec))


def _context(
    spec: LabSpec,
    version: str,
    queues: Iterable[QueueSpec],
    sharing: bool,
    nodes: tuple[str, ...] | None,
    opt_in: dict[str, str] | None = None,
) -> LintContext:
    line = line_of(version)
    own = {queue.name: fact_of(queue.name, _document(queue)) for queue in queues}
    pools = [pool for name, pool in pools_by_worker(spec) if pool.per_node and (nodes is None or name in nodes)]
    return LintContext(
        line=line,
        queues={**default_queues(line), **own},
        all_queues=True,
        gpu_sharing=sharing,
        gpu_memory=max((pool.memory for pool in pools), default=0),
        gpus_per_node=max((pool.per_node for pool in pools), default=0) if spec.gpu.mode == "simulated" else 0,
        runtime_classes=frozenset({"nvidia"} if spec.cluster.own and any(p.per_node for p in spec.gpu_pools) else ()),
        opt_in=opt_in or {},
        namespaces={"default": opt_in} if opt_in else {},  # the lab labels it
    )


def _tenant(spec: LabSpec, name: str) -> TenantSpec:
    tenants = {tenant.name: tenant for tenant in spec.tenants}
    if name not in tenants:
        near = nearest(name, tenants)
        fix = f"perhaps you meant {near}" if near else f"name one of: {', '.join(tenants) or 'none exist'}"
        raise SpecError(f"the lab has no tenant {name!r}", fix=fix)
    if tenants[name].mode == "default":
        raise SpecError(
            f"no KAI schedules the pods of tenant {name} (mode default), and these rules are about KAI",
            fix="name a tenant of mode own-kai or host-kai, or omit --tenant for the host",
        )
    return tenants[name]


def _shared(spec: LabSpec) -> tuple[str, ...] | None:
    """Return the nodes that are not dedicated to a tenant; None for all."""
    dedicated = {name for names in tenant_nodes(spec).values() for name in names}
    return tuple(name for name, _ in pools_by_worker(spec) if name not in dedicated) if dedicated else None


def _document(queue: QueueSpec) -> dict[str, Any]:
    shares = {name: getattr(queue, name) for name in RESOURCES}
    return {
        "parentQueue": queue.parent or "",
        "resources": {name: {"quota": share.quota, "limit": share.limit} for name, share in shares.items()},
    }
