"""What manifests will meet in a lab, or in one of its tenants, from its lab file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lab.config import LabSpec, QueueSpec, TenantSpec, beside_host_kai, tenant_nodes, worker_names
from lab.config.labels import HOST_KAI
from lab.errors import SpecError
from lab.kai import line_of
from lab.lint.model import LintContext, QueueFact
from lab.lint.queues import default_queues, fact_of
from lab.text import nearest

TENANT_QUEUES = (QueueSpec(name="default"), QueueSpec(name="test", parent="default"))
"""What an own-kai tenant gets that names no queues (lab.tenants.vcluster.inner_lab)."""


def setting_of(spec: LabSpec, tenant: str = "", version: str = "") -> LintContext:
    """The setting of a lab. Its queues, and those that KAI's chart makes, are all the queues there are.

    Args:
        spec: the lab file.
        tenant: the manifests are for this tenant: by its own KAI and queues, or by the host's where it has none.
        version: of KAI, instead of the lab file's.

    Raises:
        SpecError: there is no such tenant, nothing in it is KAI's, or the version is older than all that are known.
    """
    if not tenant:
        label = HOST_KAI if beside_host_kai(spec) else {}
        return _setting(spec, version or spec.kai.version, spec.queues, spec.kai.gpu_sharing, _left(spec), label)
    found = _tenant(spec, tenant)
    nodes = tenant_nodes(spec).get(tenant)
    if found.mode == "own-kai":
        queues = found.queues or TENANT_QUEUES
        return _setting(spec, version or str(found.kai_version), queues, found.gpu_sharing, nodes)
    return _setting(spec, version or spec.kai.version, spec.queues, spec.kai.gpu_sharing, nodes or _left(spec))


def _setting(
    spec: LabSpec,
    version: str,
    queues: Iterable[QueueSpec],
    sharing: bool,
    nodes: tuple[str, ...] | None,
    opt_in: dict[str, str] | None = None,
) -> LintContext:
    line = line_of(version)
    own: dict[str, QueueFact] = {queue.name: fact_of(queue.name, _document(queue)) for queue in queues}
    pools = [pool for pool, name in _workers(spec) if pool.per_node and (nodes is None or name in nodes)]
    return LintContext(
        line=line,
        queues={**default_queues(line), **own},
        gpu_sharing=sharing,
        gpu_memory=max((pool.memory for pool in pools), default=0),
        gpus_per_node=max((pool.per_node for pool in pools), default=0) if spec.gpu.mode == "simulated" else 0,
        runtime_classes=frozenset({"nvidia"}) if any(pool.per_node for pool in spec.gpu_pools) else frozenset(),
        opt_in=opt_in or {},
        namespaces={"default": opt_in} if opt_in else {},  # the lab labels it
    )


def _tenant(spec: LabSpec, name: str) -> TenantSpec:
    names = [tenant.name for tenant in spec.tenants]
    if name not in names:
        near = nearest(name, names)
        known = f"perhaps you meant {near}" if near else f"there are: {', '.join(names) or 'none'}"
        raise SpecError(f"the lab has no tenant {name!r}", fix=known)
    found = next(tenant for tenant in spec.tenants if tenant.name == name)
    if found.mode == "default":
        raise SpecError(
            f"no KAI schedules the pods of tenant {name} (mode default), and these rules are about KAI",
            fix="name a tenant of mode own-kai or host-kai, or leave --tenant out for the host",
        )
    return found


def _workers(spec: LabSpec) -> list[tuple[Any, str]]:
    """The GPU pool of each node, with the node's short name; empty for nodes that no tenant can have."""
    pools = [pool for pool in spec.gpu_pools for _ in range(pool.nodes)]
    names = worker_names(spec)
    return list(zip(pools, [*names, *[""] * (len(pools) - len(names))], strict=False))


def _left(spec: LabSpec) -> tuple[str, ...] | None:
    """Nodes that no tenant has for itself; None: all."""
    given = {name for names in tenant_nodes(spec).values() for name in names}
    return tuple(name for name in worker_names(spec) if name not in given) if given else None


def _document(queue: QueueSpec) -> dict[str, Any]:
    shares = {name: getattr(queue, name) for name in ("cpu", "memory", "gpu")}
    return {
        "parentQueue": queue.parent or "",
        "resources": {name: {"quota": share.quota, "limit": share.limit} for name, share in shares.items()},
    }
