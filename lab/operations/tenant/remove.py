"""Takes a tenant away while the lab runs, gives back what it had, and proves that nothing of it is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lab.config import TenantSpec
from lab.config.added_tenants import with_added, with_fixed_nodes
from lab.config.node_assignment import tenant_nodes
from lab.engine.events import Notice
from lab.engine.run import Engine
from lab.engine.step import Effect, Observed, State, Step
from lab.errors import HostNotReady, LabError
from lab.operations.tenant.results import Removed
from lab.operations.tenant.status import find
from lab.operations.tenant.step_selection import common_steps, host_changes, narrowed, plan_steps
from lab.session.context import LabContext
from lab.session.lab import Lab
from lab.tenants.isolation import admission_policy
from lab.tenants.removal.remove import remove_tenant
from lab.tenants.removal.timeline import Removal

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
        common = common_steps(plan_steps(lab, before, session.supply))
        removal = _take_away(lab, tenant, grace, canary)
        removed = Removed(name, removal, nodes, changes, in_file)
        if removal.left:
            return removed
        session.change_tenants(asked, added)
        session.save()
        _give_back(lab, common)
        if in_file:
            lab.bus.emit(Notice("info", f"tenant {name} is in the lab file: the next 'lab up' with it brings it back"))
    return removed


def _take_away(lab: Lab, tenant: TenantSpec, grace: float | None, canary: bool) -> Removal:
    step = Taking(tenant, grace, canary)
    record = Engine([step], lab.session.scope, bus=lab.bus, cancel=lab.session.cancel, lab=lab.spec.name).up(verb=_VERB)
    if step.done and not record.cancelled:
        return step.done[-1]
    record.raise_failure()
    raise LabError(f"tenant {tenant.name} was not taken away", fix=f"lab tenant remove {tenant.name}")


def _give_back(lab: Lab, before: list[Step[LabContext]]) -> None:
    """Bring the host to where it is without the tenant: nodes for everybody, KAI as it was, no measures."""
    session = lab.session
    after = common_steps(plan_steps(lab, lab.spec, session.supply))
    if after:
        engine = Engine(narrowed(after), session.scope, bus=lab.bus, cancel=session.cancel, lab=lab.spec.name)
        engine.up(verb=_VERB).raise_failure()
    if "isolation" in {step.id for step in before} - {step.id for step in after}:
        # the last tenant with a KAI of its own is gone
        admission_policy.take_away(lab.cluster, lab.spec.name)


@dataclass(frozen=True)
class Taking:
    """Step ``remove:NAME``: the tenant is taken away and what is left of it is looked for."""

    tenant: TenantSpec
    grace: float | None
    canary: bool
    needs: tuple[str, ...] = ()
    done: list[Removal] = field(default_factory=list)

    @property
    def id(self) -> str:
        """See Step."""
        return f"remove:{self.tenant.name}"

    @property
    def title(self) -> str:
        """See Step."""
        return f"Remove {self.tenant.name}"

    def effects(self) -> tuple[Effect, ...]:
        """See Step."""
        return (Effect("cluster", f"tenant {self.tenant.name} with all that is in it is deleted"),)

    def observe(self, ctx: LabContext) -> Observed:
        """See Step."""
        return Observed(State.ABSENT, "to be taken away")

    def apply(self, ctx: LabContext) -> None:
        """See Step."""
        self.done.append(remove_tenant(ctx, self.tenant, grace=self.grace, canary=self.canary))

    def verify(self, ctx: LabContext) -> None:
        """See Step. Raises Leftovers."""
        self.done[-1].raise_left()

    def undo(self, ctx: LabContext) -> None:
        """What is gone is gone."""
