"""Removes a tenant from a running lab, returns its resources, and verifies that nothing of it remains."""

from __future__ import annotations

from lab.config.added_tenants import without_tenant
from lab.config.node_assignment import tenant_nodes
from lab.engine.events import Notice
from lab.operations.abandoned_removal import remove_abandoned
from lab.operations.tenant.changes import Ask, TenantChange, saved_when_done
from lab.operations.tenant.results import Removed
from lab.operations.tenant.status import find
from lab.session.lab import Lab

GRACE = 1.0
"""Seconds of grace for the tenant's pods; Kubernetes' default of 30 s is most of the time of a manual removal."""


def remove(
    lab: Lab, name: str, *, grace: float | None = GRACE, check_gpus: bool = False, ask: Ask = lambda _: False
) -> Removed:
    """Remove a tenant from any partial state.

    The tenant stays in the saved state until its removal is verified, so an interrupted removal can be repeated.

    Args:
        lab: a running lab.
        name: the tenant.
        grace: seconds of grace for its pods; None keeps the grace of each pod.
        check_gpus: verify with host pods that its GPUs are free again.
        ask: called with the changes that affect others; returns False to refuse them.

    Returns:
        The timeline of the removal, and what remains; then the saved state is kept.

    Raises:
        NoLab: the lab has no such tenant.
        HostNotReady: the changes that affect others were not approved; nothing was changed.
        Busy: another process is changing the lab.
        LabError: the removal failed.
    """
    session = lab.session
    remove_abandoned(lab)  # pods of a killed GPU release check hold the GPUs that this one requests
    with session.locked():
        session.refresh()
        tenant = find(session.spec, name)
        in_file = any(one.name == name for one in session.asked.tenants)
        asked, added = without_tenant(session.asked, session.added or (), name)
        change = TenantChange(lab, session.spec, session.spec_with(asked, added))
        effects = change.approve(ask, f"removing tenant {name}")
        removal = change.undo("tenant remove", tenant, grace=grace, check_gpus=check_gpus)
        removed = Removed(name, removal, tenant_nodes(change.before).get(name, ()), effects, in_file)
        if removal.left:
            return removed
        with saved_when_done(lab):  # until then the same command continues
            session.change_tenants(asked, added)
            change.apply("tenant remove")
        if in_file:
            lab.bus.emit(Notice("info", f"tenant {name} is in the lab file: the next 'kailab up' with it recreates it"))
    return removed
