"""How a lab is now."""

from __future__ import annotations

from lab.operations.planning import build_plan
from lab.operations.prepare import engine_of
from lab.operations.results import StatusReport
from lab.session.lab import Lab
from lab.steps.host import HostReady


def status(lab: Lab) -> StatusReport:
    """How the lab stands now."""
    spec = lab.spec
    plan = build_plan(
        spec,
        lab.session.supply,
        HostReady(()),
        no_kai=lab.kai_reason,
        notices=(),
        facts={},
        added=lab.session.added_names,
        made_of=lab.node_image,
    )
    seen = engine_of(lab, plan).observe()
    notices = plan.notices
    steps = tuple((s.id, s.title, seen[s.id]) for s in plan.steps if not s.id.startswith(("supply:", "host")))
    tenants = {tenant.name: lab.paths.tenant_kubeconfig(tenant.name) for tenant in spec.tenants}
    return StatusReport(spec.name, lab.session.facts, steps, notices, tenants, lab.paths.kubeconfig)
