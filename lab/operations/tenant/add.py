"""Adds a tenant to a running lab: checks everything before the first change, and can be repeated."""

from __future__ import annotations

from lab.config import LabSpec, TenantSpec
from lab.config.added_tenants import TenantRequest, with_tenant
from lab.config.budget import with_budget
from lab.config.node_assignment import tenant_nodes
from lab.errors import LabError, SpecError
from lab.gpu.map.model import GpuMap
from lab.gpu.map.watch import GpuSource
from lab.gpu.pools import short_name
from lab.operations.planning import loading_steps
from lab.operations.tenant.changes import Ask, TenantChange, saved_when_done
from lab.operations.tenant.results import Added
from lab.session.lab import Lab
from lab.tenants.isolation.foreign_kai import NoForeignKai
from lab.tenants.preflight import refuse_unfit
from lab.tenants.vcluster.validation import validate_tenants
from lab.tenants.vcluster.values import CHART
from lab.tenants.virtual_cluster import VirtualCluster


def add(lab: Lab, asked: TenantRequest, ask: Ask = lambda _: False) -> Added:
    """Add a tenant, or continue an earlier ``add`` of the same tenant.

    The tenant is saved in the lab's state before the first change, so ``remove`` and ``kailab down`` always find it.

    Args:
        lab: a running lab.
        asked: the tenant.
        ask: called with the changes that affect others; returns False to refuse them.

    Raises:
        SpecError: the tenant is invalid or does not fit the lab; nothing was changed.
        Unavailable: an item it needs is not available; nothing was changed.
        StepFailed: its namespace exists and is of somebody else; nothing was changed.
        HostNotReady: the changes that affect others were not approved; nothing was changed.
        Busy: another process is changing the lab.
        LabError: a step failed; the same call continues from there.
    """
    session = lab.session
    with session.locked():
        session.refresh()
        others = tuple(tenant for tenant in session.spec.tenants if tenant.name != asked.name)
        # an interrupted add has saved the tenant already
        before = with_budget(session.spec.model_copy(update={"tenants": others}))
        with saved_when_done(lab):
            tenant = _put_into_session(lab, asked)
            loading = loading_steps(lab.spec, tenant, session.supply)
            change = TenantChange(lab, before, lab.spec, loading)
            alone = lab.spec.model_copy(update={"tenants": (tenant,)})
            notices = (*_warnings(lab, tenant), *validate_tenants(alone, session.supply.chart(CHART, tenant.vcluster)))
            VirtualCluster(lab.spec, tenant).refuse_foreign(lab.cluster)
            refuse_unfit(lab.context(f"tenant:{tenant.name}"), lab.spec)
            if tenant.mode == "own-kai" and not lab.has_kai:
                NoForeignKai(alone).apply(lab.context(NoForeignKai.id))
            effects = change.approve(ask, f"adding tenant {tenant.name}")
        try:
            record = change.apply("tenant add", notices)
        except LabError as error:
            hint = f"completed steps remain: repeat the command to continue, or: kailab tenant remove {tenant.name}"
            error.evidence = (*error.evidence, hint)
            raise
    nodes = tenant_nodes(lab.spec).get(tenant.name, ())
    return Added(tenant, nodes, record, lab.paths.tenant_kubeconfig(tenant.name), effects, notices)


def _put_into_session(lab: Lab, asked: TenantRequest) -> TenantSpec:
    """Validate the tenant with the whole lab and put it into the session, not yet saved. Raises SpecError."""
    session = lab.session
    added = session.added or ()
    existing = next((tenant for tenant in added if tenant.name == asked.name), None)
    others = tuple(tenant for tenant in added if tenant.name != asked.name)
    # 'auto' is resolved by now; where it became the default scheduler, host-kai tenants of the file would be refused
    resolved = {"scheduler": "kai"} if lab.has_kai else {}
    base = session.asked.model_copy(update={"tenants": (*session.asked.tenants, *others), **resolved})
    tenant = with_tenant(base, asked).tenants[-1]
    if existing is not None and existing != tenant:
        have, want = existing.model_dump(by_alias=True), tenant.model_dump(by_alias=True)
        raise SpecError(
            f"Tenant {asked.name} already exists with different settings",
            evidence=[f"{key}: {have[key]!r}, requested: {want[key]!r}" for key in have if have[key] != want[key]],
            fix=f"kailab tenant remove {asked.name} first, or repeat the settings it was added with",
        )
    session.change_tenants(session.asked, (*others, tenant))
    if existing is None and tenant.name in tenant_nodes(lab.spec):
        _refuse_used_nodes(GpuSource.of(lab.context("gpus")).read(), lab.spec, tenant)
    return tenant


def _warnings(lab: Lab, tenant: TenantSpec) -> tuple[str, ...]:
    """Settings of the new tenant that are valid but probably not intended."""
    place = f"tenants.{len(lab.spec.tenants) - 1}."
    found = [text.removeprefix(place) for text in lab.spec.warnings() if text.startswith(place)]
    if tenant.mode == "host-kai" and not lab.has_kai:
        found.append("the host has no KAI: the default scheduler runs its pods")
    return tuple(f"tenant {tenant.name}: {text}" for text in found)


def _refuse_used_nodes(gpus: GpuMap, spec: LabSpec, tenant: TenantSpec) -> None:
    """Refuse workers with GPU pods of others: a taint evicts no pod, and the tenant would see those GPUs as free.

    Raises:
        SpecError: others use GPUs of these workers.
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
            f"Workers {', '.join(own)} cannot be dedicated to tenant {tenant.name}: pods of others use GPUs there",
            evidence=list(dict.fromkeys(lines)),
            fix="wait for those pods or delete them, or select other workers with --nodes",
        )
