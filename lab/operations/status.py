"""Reports the state of a running lab."""

from __future__ import annotations

from lab.operations.engine import engine_for
from lab.operations.planning import no_kai_notice, running_steps
from lab.operations.results import StatusReport
from lab.session.lab import Lab


def status(lab: Lab) -> StatusReport:
    """Observe every step of the lab; items that are no longer in the cache do not matter to a running lab."""
    spec = lab.spec
    every = running_steps(spec, lab.session.supply, node_image=lab.node_image)
    shown = [step for step in every if step.id != "host"]
    seen = engine_for(lab, shown, partial=True).observe()
    steps = tuple((step.id, step.title, seen[step.id]) for step in shown)
    tenants = {tenant.name: lab.paths.tenant_kubeconfig(tenant.name) for tenant in spec.tenants}
    notices = no_kai_notice(spec, lab.kai_reason)
    return StatusReport(spec.name, lab.session.facts, steps, notices, tenants, lab.paths.kubeconfig)
