"""The dedicated workers of each tenant, and whether KAI runs both on the host and in a tenant. Pure.

Virtual nodes never subtract the GPUs that others use, so two own-kai tenants on the same nodes would silently
over-commit their GPUs. Dedicated nodes prevent it.
"""

from __future__ import annotations

from lab.config.gpu import NodePool
from lab.config.sections import LabFields
from lab.config.tenant import TenantSpec


def worker_names(spec: LabFields) -> tuple[str, ...]:
    """Short names of the workers in kind's order (``worker``, ``worker2``, …).

    In an existing cluster, the nodes that the lab file names.
    """
    if not spec.cluster.own:
        return tuple(name for tenant in spec.tenants if isinstance(tenant.nodes, tuple) for name in tenant.nodes)
    return tuple("worker" if number == 1 else f"worker{number}" for number in range(1, spec.cluster.workers + 1))


def pools_by_worker(spec: LabFields) -> list[tuple[str, NodePool]]:
    """Short name and GPU pool of each node with a pool, in node order; the name of a control-plane node is empty."""
    if not spec.cluster.own:
        return [(name, pool) for pool in spec.gpu_pools for name in spec.gpu.nodes]
    pools = [pool for pool in spec.gpu_pools for _ in range(pool.nodes)]
    names = worker_names(spec)
    return list(zip([*names, *[""] * (len(pools) - len(names))], pools, strict=False))


def nodes_wanted(tenant: TenantSpec) -> int | tuple[str, ...]:
    """A tenant's ``nodes``, by default one worker for own-kai and none otherwise."""
    if tenant.nodes is not None:
        return tenant.nodes
    return 1 if tenant.mode == "own-kai" else 0


def tenant_nodes(spec: LabFields) -> dict[str, tuple[str, ...]]:
    """Short names, in kind's order, of the dedicated workers of each tenant that has any.

    Named workers come first; then tenants with a number of nodes get the free workers from the last one backwards, so
    that the host's KAI keeps the first ones. With too few workers, which breaks a rule (``lab.config.tenant_rules``),
    tenants get those that are left.
    """
    workers = worker_names(spec)
    named = {tenant.name: tenant.nodes for tenant in spec.tenants if isinstance(tenant.nodes, tuple)}
    taken = {name for names in named.values() for name in names}
    left = [name for name in workers if name not in taken]
    given: dict[str, tuple[str, ...]] = {}
    for tenant in spec.tenants:
        wanted = nodes_wanted(tenant)
        if isinstance(wanted, tuple):
            own = tuple(name for name in workers if name in wanted)
        else:
            count = min(wanted, len(left))
            own = tuple(left[len(left) - count :])
            del left[len(left) - count :]
        if own:
            given[tenant.name] = own
    return given


def beside_host_kai(spec: LabFields) -> bool:
    """Whether both the host and a tenant have KAI, so that isolation measures must separate them."""
    return spec.scheduler != "default" and has_own_kai(spec)


def has_own_kai(spec: LabFields) -> bool:
    """Whether a tenant has a KAI of its own."""
    return any(tenant.mode == "own-kai" for tenant in spec.tenants)
