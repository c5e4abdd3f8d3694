"""Adds a tenant to a lab that runs: all of it is checked before anything is touched, and it can be repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.config import LabSpec, TenantSpec
from lab.config.added_tenants import TenantRequest, with_tenant
from lab.config.node_assignment import tenant_nodes
from lab.engine.events import Notice
from lab.engine.run import Engine, RunRecord
from lab.engine.step import Effect
from lab.errors import HostNotReady, LabError, SpecError
from lab.gpu.map.model import GpuMap
from lab.gpu.map.watch import GpuSource
from lab.gpu.pools import short_name
from lab.operations.engine import engine_for
from lab.operations.tenant.changes import delta, host_changes
from lab.operations.tenant.results import Added
from lab.session import run_history
from lab.session.lab import Lab
from lab.tenants import validate_tenants
from lab.tenants.vcluster.values import CHART

Ask = Callable[[tuple[Effect, ...]], bool]


def add(lab: Lab, asked: TenantRequest, ask: Ask = lambda _: False) -> Added:
    """Add a tenant, or finish what an earlier ``add`` of the same tenant began.

    The tenant is in the lab's saved state before anything is made, so that ``remove`` and ``lab down`` find it
    whatever happens.

    Args:
        lab: one that is up.
        asked: the tenant.
        ask: called with what changes for others; False refuses it.

    Raises:
        SpecError: the tenant is wrong or does not fit the lab; nothing was changed.
        Unavailable: something it needs cannot be had; nothing was changed.
        HostNotReady: what changes for others was not agreed to; nothing was changed.
        Busy: another process changes the lab.
        LabError: a step failed; the same call goes on from there.
    """
    session = lab.session
    with session.locked():
        session.refresh()
        before = _without(session.spec, asked.name)  # there already where an earlier add was cut off
        try:
            tenant = _take_on(lab, asked)
            steps = delta(lab, before, lab.spec, (tenant.name,)).applied
            notices = (
                *_doubts(lab, tenant),
                *validate_tenants(_only(lab.spec, tenant), session.supply.chart(CHART, tenant.vcluster)),
            )
            changes = _agreed(lab, before, tenant, ask)
        except LabError:
            session.refresh()  # nothing was written: the lab is as it was
            raise
        session.save()
        for text in notices:
            lab.bus.emit(Notice("warning", text))
        record = _run(lab, engine_for(lab, steps, partial=True), tenant)
    return Added(
        tenant,
        tenant_nodes(lab.spec).get(tenant.name, ()),
        record,
        lab.paths.tenant_kubeconfig(tenant.name),
        changes,
        notices,
    )


def _take_on(lab: Lab, asked: TenantRequest) -> TenantSpec:
    """Check the tenant with the whole lab and have it in the session, not yet in the saved state. Raises SpecError."""
    session = lab.session
    added = session.added or ()
    there = next((tenant for tenant in added if tenant.name == asked.name), None)
    others = tuple(tenant for tenant in added if tenant.name != asked.name)
    # 'auto' is settled by now; where it came to the default scheduler, host-kai tenants of the file would be refused
    settled = {"scheduler": "kai"} if lab.has_kai else {}
    base = session.asked.model_copy(update={"tenants": (*session.asked.tenants, *others), **settled})
    tenant = with_tenant(base, asked).tenants[-1]
    if there is not None and there != tenant:
        raise SpecError(
            f"tenant {asked.name} is there already, and not as it is asked for now",
            evidence=_differences(there, tenant),
            fix=f"lab tenant remove {asked.name} first, or repeat what it was added with",
        )
    session.change_tenants(session.asked, (*others, tenant))
    if there is None and tenant.name in tenant_nodes(lab.spec):
        _refuse_taken(GpuSource.of(lab.context("gpus")).read(), lab.spec, tenant)
    return tenant


def _differences(there: TenantSpec, asked: TenantSpec) -> list[str]:
    have, want = there.model_dump(by_alias=True), asked.model_dump(by_alias=True)
    return [f"{key}: {have[key]!r}, asked for: {want[key]!r}" for key in have if have[key] != want[key]]


def _doubts(lab: Lab, tenant: TenantSpec) -> tuple[str, ...]:
    """What is allowed and probably not meant about the new tenant."""
    place = f"tenants.{len(lab.spec.tenants) - 1}."
    said = [text.removeprefix(place) for text in lab.spec.warnings() if text.startswith(place)]
    if tenant.mode == "host-kai" and not lab.has_kai:
        said.append("there is no KAI on the host: the default scheduler runs its pods")
    return tuple(f"tenant {tenant.name}: {text}" for text in said)


def _agreed(lab: Lab, before: LabSpec, tenant: TenantSpec, ask: Ask) -> tuple[Effect, ...]:
    """What changes for others, once it was agreed to. Raises HostNotReady."""
    changes = host_changes(lab.context("kai"), before, lab.spec)
    if changes and not ask(changes):
        raise HostNotReady(
            f"tenant {tenant.name} changes KAI on the host, and that was not agreed to; nothing was changed",
            evidence=[effect.what for effect in changes],
            fix="run with --yes to agree to it",
        )
    return changes


def _refuse_taken(gpus: GpuMap, spec: LabSpec, tenant: TenantSpec) -> None:
    """Refuse workers whose GPUs others use: a taint sends nobody away, and the tenant would see them as free.

    Raises:
        SpecError: pods of others are there.
    """
    own = tenant_nodes(spec).get(tenant.name, ())
    lines = [
        f"{short_name(spec.name, node.name)}: {holder.title}{f' of tenant {holder.tenant}' if holder.tenant else ''}"
        f" has {holder.asked}"
        for node in gpus.nodes
        if short_name(spec.name, node.name) in own
        for holder in (*(holder for gpu in node.gpus for holder in gpu.holders), *node.unplaced)
        if holder.tenant != tenant.name
    ]
    if lines:
        raise SpecError(
            f"tenant {tenant.name} is to have {', '.join(own)} for itself, but pods of others have GPUs there",
            evidence=list(dict.fromkeys(lines)),
            fix="wait for those pods or delete them, or name other workers with --nodes",
        )


def _without(spec: LabSpec, name: str) -> LabSpec:
    return spec.model_copy(update={"tenants": tuple(tenant for tenant in spec.tenants if tenant.name != name)})


def _only(spec: LabSpec, tenant: TenantSpec) -> LabSpec:
    """The lab as far as this tenant's values are concerned: the others' were checked when they came."""
    return spec.model_copy(update={"tenants": (tenant,)})


def _run(lab: Lab, engine: Engine[Any], tenant: TenantSpec) -> RunRecord:
    record = engine.up(verb="tenant add")
    run_history.save_run(lab.paths.runs, record, dict(lab.session.facts))
    try:
        record.raise_failure()
    except LabError as error:
        what_now = f"what is done stays: repeat it to go on, or take it away: lab tenant remove {tenant.name}"
        error.evidence = (*error.evidence, what_now)
        raise
    return record
