"""A change of a running lab's tenants: its plan delta, the approval that it needs, and its run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lab.config import LabSpec, TenantSpec
from lab.config.node_assignment import beside_host_kai
from lab.engine.delta import PlanDelta
from lab.engine.events import Notice
from lab.engine.run import RunRecord
from lab.engine.step import Effect, Step
from lab.errors import HostNotReady, LabError
from lab.objects.isolation_labels import HOST_KAI_LABEL
from lab.operations.engine import engine_for
from lab.operations.planning import cluster_steps
from lab.session import run_history
from lab.session.context import LabContext
from lab.session.lab import Lab
from lab.steps.kai.step import Kai
from lab.steps.loaded_images import LoadedImages
from lab.tenants.removal.timeline import Removal
from lab.tenants.virtual_cluster import VirtualCluster

Ask = Callable[[tuple[Effect, ...]], bool]


@dataclass(frozen=True)
class TenantChange:
    """Leads a running lab from one set of tenants to another.

    Args:
        lab: a running lab.
        before: its current spec.
        after: its wanted spec.
        loading: steps that load images into the running nodes first.
    """

    lab: Lab
    before: LabSpec
    after: LabSpec
    loading: tuple[Step[LabContext], ...] = ()

    @cached_property
    def delta(self) -> PlanDelta[LabContext]:
        """The steps to undo and to apply."""
        image, own = self.lab.node_image, self.lab.own_node
        change = PlanDelta.between(*(cluster_steps(spec, image, own) for spec in (self.before, self.after)))
        loaded = {step.owner for step in self.loading if isinstance(step, LoadedImages)}
        applied = (
            replace(step, images_loaded=True)
            if isinstance(step, VirtualCluster) and step.tenant.name in loaded
            else step
            for step in change.applied
        )
        return replace(change, applied=(*self.loading, *applied))

    def host_effects(self) -> tuple[Effect, ...]:
        """The effects on KAI on the host, compared with the installed release; empty without any."""
        kai = next((step for step in self.delta.applied if isinstance(step, Kai)), None)
        if kai is None:
            return ()
        restricted = beside_host_kai(self.after)
        namespaces = f"only namespaces labelled {HOST_KAI_LABEL}=host: the lab's own have the label, label yours"
        policy = "ValidatingAdmissionPolicy that keeps KAI on the host off pods of tenants with their own KAI"
        lines = (
            *(f"KAI on the host is upgraded in place: {line}" for line in kai.observe(self.lab.context(kai.id)).diff),
            f"KAI on the host watches {namespaces if restricted else 'all namespaces and nodes again'}",
            f"the {policy} is {'created' if restricted else 'deleted'}",
        )
        undo = "kailab tenant remove" if restricted else "kailab tenant add"
        return tuple(Effect("cluster", line, undo) for line in lines)

    def approve(self, ask: Ask, what: str) -> tuple[Effect, ...]:
        """The effects on KAI on the host, after the user approved them; ``what`` names the operation.

        Raises:
            HostNotReady: they were not approved.
        """
        effects = self.host_effects()
        if effects and not ask(effects):
            raise HostNotReady(
                f"{what} changes KAI on the host, and this was not approved; nothing was changed",
                evidence=[effect.what for effect in effects],
                fix="re-run with --yes to approve it",
            )
        return effects

    def apply(self, verb: str, notices: Sequence[str] = ()) -> RunRecord:
        """Emit the notices as warnings and apply the steps. Raises LabError: a step failed."""
        for text in notices:
            self.lab.bus.emit(Notice("warning", text))
        record = engine_for(self.lab, self.delta.applied, partial=True).up(verb=verb)
        run_history.save_run(self.lab.paths.runs, record, dict(self.lab.session.facts))
        record.raise_failure()
        return record

    def undo(self, verb: str, tenant: TenantSpec, *, grace: float | None, check_gpus: bool) -> Removal:
        """Undo the steps that are gone, among them the tenant's. Raises LabError: the removal did not finish."""
        removals: list[Removal] = []
        steps = [
            replace(step, grace=grace, check_gpus=check_gpus, removals=removals)
            if isinstance(step, VirtualCluster)
            else step
            for step in self.delta.gone
        ]
        record = engine_for(self.lab, steps, partial=True).down(verb, past_failures=False)
        if removals and removals[-1].left and not record.cancelled:
            return removals[-1]  # the caller reports what remains
        record.raise_failure()
        if not removals:
            raise LabError(f"tenant {tenant.name} was not removed", fix=f"kailab tenant remove {tenant.name}")
        return removals[-1]


@contextlib.contextmanager
def saved_when_done(lab: Lab) -> Iterator[None]:
    """Save the session after the block; when the block raises LabError, restore the session from the saved state."""
    try:
        yield
    except LabError:
        lab.session.refresh()
        raise
    lab.session.save()
