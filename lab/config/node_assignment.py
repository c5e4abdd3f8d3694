"""Which workers belong to which tenant alone, and whether KAI runs on the host and in a tenant at once. Pure.

Virtual nodes never subtract the GPUs that others use, so two own-kai tenants on the same nodes would over-commit their
GPUs without a word. Nodes of their own are what prevents it.
"""

from __future__ import annotations

from lab.config.sections import LabFields
from lab.config.tenant import TenantSpec


def worker_names(spec: LabFields) -> tuple[str, ...]:
    """Short names of the workers in kind's order: ``worker``, ``worker2``, …; none where the lab creates none."""
    if spec.cluster.provider != "kind":
        return ()
    return tuple("worker" if number == 1 else f"worker{number}" for number in range(1, spec.cluster.workers + 1))


def nodes_wanted(tenant: TenantSpec) -> int | tuple[str, ...]:
    """What a tenant asks for, by the default of its mode: one worker for own-kai, none for the others."""
    if tenant.nodes is not None:
        return tenant.nodes
    return 1 if tenant.mode == "own-kai" else 0


def tenant_nodes(spec: LabFields) -> dict[str, tuple[str, ...]]:
    """Short names of each tenant's own workers, for the tenants that have any, in the order of the lab file.

    Named workers are given out first; then those that ask for a number get what is left, from the last worker
    backwards, so that host KAI keeps the first ones. Each tenant's names stand in kind's order.

    A lab whose workers do not suffice breaks a rule (``lab.config.tenant_rules``); here it gets what there is.
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
    """Whether a KAI on the host and one in a tenant run in the same cluster: only measures keep them apart then."""
    return spec.scheduler != "default" and any(tenant.mode == "own-kai" for tenant in spec.tenants)
