"""Takes a tenant away while the lab runs, gives back what it had, and proves that nothing of it is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lab.config import TenantSpec
from lab.config.added_tenants import with_added, with_fixed_nodes
from lab.config.node_assignment import tenant_nodes
from lab.engine.events import Notice
from lab.engine.step import Effect, Step
from lab.errors import HostNotReady, LabError
from lab.operations.engine import engine_for
from lab.operations.tenant.changes import delta, host_changes
from lab.operations.tenant.results import Removed
from lab.operations.tenant.status import find
from lab.session.context import LabContext
from lab.session.lab import Lab
from lab.tenants.removal.timeline import Removal
from lab.tenants.virtual_cluster import VirtualCluster

Ask = Callable[[tuple[Effect, ...]], bool]

GRACE = 1.0
"""Seconds of grace that the tenant's pods get; most of what a removal takes by hand is the 30 s of Kubernetes."""


_VERB = "tenant remove"


def remove(
    lab: Lab, name: str, *, grace: float | None = GRACE, canary: bool = False, ask: Ask = lambda _: False
) -> Removed:
    """Take a tenant away; one that is half made or half gone too.

    The tenant stays in the saved state until it is gone with proof, so that a removal that was cut off can be repeated.

    Args:
        lab: one that is up.
        name: the tenant.
        grace: seconds that its pods get to end; None leaves each pod its own.
        canary: prove by a pod that its GPUs are free again.
        ask: called with what changes for others; False refuses it.

    Returns:
        What was measured, and what is left; the state is kept when something is.

    Raises:
        NoLab: the lab has no such tenant.
        HostNotReady: what changes for others was not agreed to; nothing was changed.
        Busy: another process changes the lab.
        LabError: the removal could not be done.
    """
    session = lab.session
    with session.locked():
        session.refresh()
        before = session.spec
        tenant = find(before, name)
        in_file = any(one.name == name for one in session.asked.tenants)
        # what the file gives out by number must not move when one tenant fewer counts
        asked = with_fixed_nodes(session.asked) if in_file else session.asked
        asked = asked.model_copy(update={"tenants": tuple(one for one in asked.tenants if one.name != name)})
        added = tuple(one for one in session.added or () if one.name != name)
        own = before.model_copy(update={"tenants": asked.tenants})
        after = with_added(own, added)
        nodes = tenant_nodes(before).get(name, ())
        changes = host_changes(lab.context("kai"), before, after)
        if changes and not ask(changes):
            raise HostNotReady(
                f"taking tenant {name} away changes KAI on the host, and that was not agreed to; nothing was changed",
                evidence=[effect.what for effect in changes],
                fix="run with --yes to agree to it",
            )
        change = delta(lab, before, after)
        removal = _undo(lab, tenant, change.gone, grace, canary)
        removed = Removed(name, removal, nodes, changes, in_file)
        if removal.left:
            return removed
        session.change_tenants(asked, added)
        session.save()
        if change.applied:
            engine_for(lab, change.applied, partial=True).up(verb=_VERB).raise_failure()
        if in_file:
            lab.bus.emit(Notice("info", f"tenant {name} is in the lab file: the next 'lab up' with it brings it back"))
    return removed


def _undo(lab: Lab, tenant: TenantSpec, gone: Sequence[Step[LabContext]], grace: float | None, canary: bool) -> Removal:
    """Undo the steps that are gone; returns how the tenant's own went. Raises LabError unless it came to its end."""
    removals: list[Removal] = []
    steps = [
        replace(step, grace=grace, check_gpus=canary, removals=removals) if isinstance(step, VirtualCluster) else step
        for step in gone
    ]
    record = engine_for(lab, steps, partial=True).down(_VERB, past_failures=False)
    if removals and removals[-1].left and not record.cancelled:
        return removals[-1]  # with all that was measured; the caller says what is left
    record.raise_failure()
    if not removals:
        raise LabError(f"tenant {tenant.name} was not taken away", fix=f"lab tenant remove {tenant.name}")
    return removals[-1]
