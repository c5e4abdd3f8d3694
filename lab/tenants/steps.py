"""All steps of a lab's tenants: their nodes, what keeps the host's KAI off, the vClusters, and what is inside them."""

from __future__ import annotations

from lab.config import LabSpec, TenantSpec
from lab.config.node_assignment import beside_host_kai
from lab.engine.step import Step
from lab.session.context import LabContext
from lab.steps.kai import Kai
from lab.steps.queues import Queues
from lab.tenants.isolation.dedicated_nodes import tenant_node_steps
from lab.tenants.isolation.step import isolation_steps
from lab.tenants.vcluster.inner_lab import StepInTenant
from lab.tenants.virtual_cluster import VirtualCluster


def tenancy_steps(spec: LabSpec) -> list[Step[LabContext]]:
    """The steps, in plan order. The vClusters come up at the same time; nothing of them waits for KAI on the host."""
    apart = spec.scheduler == "kai" and beside_host_kai(spec)
    steps: list[Step[LabContext]] = [*tenant_node_steps(spec), *(isolation_steps(spec) if apart else [])]
    for tenant in spec.tenants:
        steps.append(VirtualCluster(spec, tenant))
        if tenant.mode == "own-kai":
            steps += own_kai_steps(spec, tenant, apart=apart)
    return steps


def own_kai_steps(spec: LabSpec, tenant: TenantSpec, *, apart: bool) -> list[Step[LabContext]]:
    """KAI and queues inside a tenant.

    Args:
        spec: the lab file.
        tenant: one with a KAI of its own.
        apart: KAI is on the host too, and must be kept off before a pod of the tenant's KAI runs.
    """
    before = (f"tenant:{tenant.name}", *(("isolation",) if apart else ()))
    kai = StepInTenant(tenant, spec, lambda inner: Kai(inner), before)
    return [kai, StepInTenant(tenant, spec, lambda inner: Queues(inner), (kai.id,))]
