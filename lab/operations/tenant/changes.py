"""The parts that adding, upgrading and removing a tenant share: steps, host changes, approval, and the run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from lab.config import LabSpec
from lab.config.labels import HOST_KAI_LABEL
from lab.config.node_assignment import beside_host_kai
from lab.engine.delta import PlanDelta
from lab.engine.events import Notice
from lab.engine.run import RunRecord
from lab.engine.step import Effect, Step
from lab.errors import HostNotReady, LabError
from lab.operations.engine import engine_for
from lab.operations.planning import cluster_steps
from lab.session import run_history
from lab.session.context import LabContext
from lab.session.lab import Lab
from lab.steps import helm_release
from lab.steps.kai.step import NAMESPACE, RELEASE
from lab.steps.kai.values import release_values
from lab.tenants.vcluster.images import TenantImages
from lab.tenants.virtual_cluster import VirtualCluster

Ask = Callable[[tuple[Effect, ...]], bool]


def delta(lab: Lab, before: LabSpec, after: LabSpec, loading: Sequence[Step[LabContext]] = ()) -> PlanDelta[LabContext]:
    """The steps that lead from one set of tenants to another, on the running cluster.

    Args:
        lab: a running lab.
        before: its current spec.
        after: its wanted spec.
        loading: steps that load images into the running nodes first.
    """
    own, image = lab.session.supply.own_node, lab.node_image
    change = PlanDelta.between(cluster_steps(before, image, own), cluster_steps(after, image, own))
    loaded = {step.tenant for step in loading if isinstance(step, TenantImages)}
    applied = (
        replace(step, images_loaded=True) if isinstance(step, VirtualCluster) and step.tenant.name in loaded else step
        for step in change.applied
    )
    return replace(change, applied=(*loading, *applied))


def approved_host_changes(lab: Lab, before: LabSpec, after: LabSpec, ask: Ask, what: str) -> tuple[Effect, ...]:
    """The changes of the host's KAI, after the user approved them; ``what`` names the operation.

    Raises:
        HostNotReady: they were not approved.
    """
    changes = host_changes(lab.context("kai"), before, after)
    if changes and not ask(changes):
        raise HostNotReady(
            f"{what} changes KAI on the host, and this was not approved; nothing was changed",
            evidence=[effect.what for effect in changes],
            fix="re-run with --yes to approve it",
        )
    return changes


def host_changes(ctx: LabContext, before: LabSpec, after: LabSpec) -> tuple[Effect, ...]:
    """The effects of a change of tenants on KAI on the host; empty when there are none.

    Compares with the installed release, so the effects are those that Helm will apply.
    """
    restricted = beside_host_kai(after)
    if after.scheduler != "kai" or beside_host_kai(before) == restricted:
        return ()
    release = helm_release.installed(ctx.cluster(), RELEASE, NAMESPACE)
    diff = helm_release.differences(release, after.kai.version, release_values(after)) if release else ()
    namespaces = f"only namespaces labelled {HOST_KAI_LABEL}=host: the lab's own have the label, label yours"
    policy = "ValidatingAdmissionPolicy that keeps KAI on the host off pods of tenants with their own KAI"
    lines = (
        *(f"KAI on the host is upgraded in place: {line}" for line in diff),
        f"KAI on the host watches {namespaces if restricted else 'all namespaces and nodes again'}",
        f"the {policy} is {'created' if restricted else 'deleted'}",
    )
    undo = "lab tenant remove" if restricted else "lab tenant add"
    return tuple(Effect("cluster", line, undo) for line in lines)


@contextlib.contextmanager
def saved_when_done(lab: Lab) -> Iterator[None]:
    """Save the session after the block; when the block raises LabError, restore the session from the saved state."""
    try:
        yield
    except LabError:
        lab.session.refresh()
        raise
    lab.session.save()


def run_steps(lab: Lab, steps: Sequence[Step[LabContext]], notices: Sequence[str], verb: str) -> RunRecord:
    """Emit the notices as warnings and apply the steps. Raises LabError: a step failed."""
    for text in notices:
        lab.bus.emit(Notice("warning", text))
    record = engine_for(lab, steps, partial=True).up(verb=verb)
    run_history.save_run(lab.paths.runs, record, dict(lab.session.facts))
    record.raise_failure()
    return record
