"""Removes a tenant from a running lab, returns its resources, and verifies that nothing of it remains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.config import TenantSpec
from lab.config.added_tenants import with_added, with_fixed_nodes
from lab.config.node_assignment import tenant_nodes
from lab.engine.events import Notice
from lab.engine.step import Step
from lab.errors import LabError
from lab.operations.engine import engine_for
from lab.operations.tenant.changes import Ask, approved_host_changes, delta
from lab.operations.tenant.results import Removed
from lab.operations.tenant.status import find
from lab.session.context import LabContext
from lab.session.lab import Lab
from lab.tenants.removal.timeline import Removal
from lab.tenants.virtual_cluster import VirtualCluster

GRACE = 1.0
"""Seconds of grace for the tenant's pods; Kubernetes' default of 30 s is most of the time of a manual removal."""

_VERB = "tenant remove"


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
    with session.locked():
        session.refresh()
        before = session.spec
        tenant = find(before, name)
        in_file = any(one.name == name for one in session.asked.tenants)
        # nodes that the lab file assigns by count must not move when one tenant fewer is counted
        asked = with_fixed_nodes(session.asked) if in_file else session.asked
        asked = asked.model_copy(update={"tenants": tuple(one for one in asked.tenants if one.name != name)})
        added = tuple(one for one in session.added or () if one.name != name)
        after = with_added(before.model_copy(update={"tenants": asked.tenants}), added)
        changes = approved_host_changes(lab, before, after, ask, f"removing tenant {name}")
        change = delta(lab, before, after)
        removal = _undo(lab, tenant, change.gone, grace, check_gpus)
        removed = Removed(name, removal, tenant_nodes(before).get(name, ()), changes, in_file)
        if removal.left:
            return removed
        session.change_tenants(asked, added)
        session.save()
        if change.applied:
            engine_for(lab, change.applied, partial=True).up(verb=_VERB).raise_failure()
        if in_file:
            lab.bus.emit(Notice("info", f"tenant {name} is in the lab file: the next 'lab up' with it recreates it"))
    return removed


def _undo(
    lab: Lab, tenant: TenantSpec, gone: Sequence[Step[LabContext]], grace: float | None, check_gpus: bool
) -> Removal:
    """Undo the tenant's steps. Raises LabError when its removal did not finish."""
    removals: list[Removal] = []
    steps = [
        replace(step, grace=grace, check_gpus=check_gpus, removals=removals)
        if isinstance(step, VirtualCluster)
        else step
        for step in gone
    ]
    record = engine_for(lab, steps, partial=True).down(_VERB, past_failures=False)
    if removals and removals[-1].left and not record.cancelled:
        return removals[-1]  # the caller reports what remains
    record.raise_failure()
    if not removals:
        raise LabError(f"tenant {tenant.name} was not removed", fix=f"lab tenant remove {tenant.name}")
    return removals[-1]
