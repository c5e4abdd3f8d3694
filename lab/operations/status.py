"""Reports the state of a running lab."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from lab.engine.step import ObservedStep
from lab.operations.abandoned import abandoned
from lab.operations.engine import observe
from lab.operations.planning import cluster_steps, no_kai_notice
from lab.operations.results import StatusReport
from lab.session.lab import Lab
from lab.steps.node_image import NodeImage


def status(lab: Lab) -> StatusReport:
    """Observe every step of the lab, and name what killed test runs left; changes nothing.

    Items that are no longer in the cache do not matter to a running lab.
    """
    spec = lab.spec
    images = (NodeImage(spec, (), lab.node_image),) if spec.cluster.own else ()
    shown = [*images, *cluster_steps(spec, lab.node_image, lab.own_node)]
    with ThreadPoolExecutor(1) as pool:
        left = pool.submit(abandoned, lab)
        seen = observe(lab, shown, partial=True)
    steps = tuple(ObservedStep(step.id, step.title, seen[step.id]) for step in shown)
    tenants = {tenant.name: lab.paths.tenant_kubeconfig(tenant.name) for tenant in spec.tenants}
    notices = no_kai_notice(spec, lab.kai_reason)
    return StatusReport(spec.name, lab.session.facts, steps, notices, tenants, lab.paths.kubeconfig, left.result())
