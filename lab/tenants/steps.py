"""The steps of a lab's tenants: dedicated nodes, isolation from the host's KAI, vClusters, and KAI inside them."""

from __future__ import annotations

from functools import partial

from lab.config import LabSpec
from lab.config.node_assignment import beside_host_kai, has_own_kai, tenant_nodes
from lab.engine.step import Step
from lab.session.context import LabContext
from lab.steps.kai import Kai
from lab.steps.queues import Queues
from lab.tenants.isolation.dedicated_nodes import TenantNodes
from lab.tenants.isolation.foreign_kai import NoForeignKai
from lab.tenants.isolation.step import Isolation
from lab.tenants.vcluster.inner_lab import StepInTenant
from lab.tenants.virtual_cluster import VirtualCluster


def tenant_steps(spec: LabSpec) -> list[Step[LabContext]]:
    """The steps in plan order. vClusters start in parallel and do not wait for KAI on the host."""
    isolated = spec.scheduler == "kai" and beside_host_kai(spec)
    steps: list[Step[LabContext]] = [TenantNodes(spec)] if tenant_nodes(spec) else []
    if has_own_kai(spec):
        steps.append(Isolation(spec) if isolated else NoForeignKai(spec))
    for tenant in spec.tenants:
        steps.append(VirtualCluster(spec, tenant))
        if tenant.mode == "own-kai":
            # a KAI on the host must be isolated before a pod of the tenant's KAI runs
            needs = (f"tenant:{tenant.name}", Isolation.id if isolated else NoForeignKai.id)
            kai = StepInTenant(tenant, spec, partial(Kai, stop_first=True), needs)
            steps += [kai, StepInTenant(tenant, spec, Queues, (kai.id,))]
    return steps
