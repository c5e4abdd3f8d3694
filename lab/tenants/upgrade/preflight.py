"""Whether a tenant can have another KAI version, looked at before anything changes; and which versions are at hand."""

from __future__ import annotations

from collections.abc import Iterator

from lab.config import TenantSpec, queue_rules
from lab.config.rules import kai_on
from lab.errors import SpecError, Unavailable
from lab.kai import line_of, release
from lab.kai.names import KAI_CHART
from lab.session.context import LabContext
from lab.steps.kai.values import kai_images
from lab.supply import Choice, Item
from lab.tenants.vcluster.inner_lab import tenant_context


def changed(tenant: TenantSpec, version: str) -> TenantSpec:
    """The tenant with another KAI. Raises SpecError: it has no KAI of its own, or that is no version."""
    if tenant.mode != "own-kai":
        raise SpecError(
            f"tenant {tenant.name} has no KAI of its own (mode {tenant.mode})",
            fix="name a tenant of mode own-kai; the host's KAI changes with kai.version and 'lab up'",
        )
    release(version)
    return tenant.model_copy(update={"kai_version": version.removeprefix("v")})


def check_change(ctx: LabContext, tenant: TenantSpec) -> tuple[str, ...]:
    """Look, before anything changes, whether a tenant can have the KAI version it names; returns warnings.

    Raises:
        SpecError: that version does not run on the tenant's Kubernetes, with its queues, or at all.
        Unavailable: its chart or an image cannot be had.
    """
    version = str(tenant.kai_version)
    at = ("kaiVersion",)
    broken = [
        *kai_on(version, tenant.kubernetes, at, ("kubernetes",)),
        *queue_rules.levels(tenant.queues, ("queues",), version, at),
    ]
    if broken:
        raise SpecError(
            f"tenant {tenant.name} cannot have KAI {version}: {broken[0].what}",
            evidence=[rule.what for rule in broken[1:]],
            fix="name another version ('lab kai versions' lists what runs on what); a tenant keeps its Kubernetes",
        )
    if lacking := _lacking(ctx, tenant):
        raise Unavailable(
            f"KAI {version} cannot be had for tenant {tenant.name}",
            evidence=[f"{choice.item}: {'; '.join(choice.why)}" for choice in lacking],
            fix=lacking[0].fix,
        )
    line = line_of(version)
    return (line.warning,) if line.warning else ()


def versions_at_hand(ctx: LabContext, tenant: TenantSpec) -> tuple[str, ...]:
    """Other KAI versions that bundles here have whole, and that run in this tenant; oldest first."""
    charts = {
        entry.version.removeprefix("v")
        for bundle in ctx.supply.bundles
        for entry in bundle.entries
        if (entry.kind, entry.name) == ("chart", KAI_CHART)
    }
    return tuple(sorted((v for v in charts if v != tenant.kai_version and _fits(ctx, tenant, v)), key=release))


def _items(ctx: LabContext, tenant: TenantSpec) -> Iterator[Item]:
    yield Item("chart", KAI_CHART, line_of(str(tenant.kai_version)).tag)
    for reference in kai_images(tenant_context(ctx, tenant).spec):
        yield Item("image", reference)


def _lacking(ctx: LabContext, tenant: TenantSpec) -> list[Choice]:
    choices = ctx.supply.choose(_items(ctx, tenant)).values()
    return [choice for choice in choices if not choice.available]


def _fits(ctx: LabContext, tenant: TenantSpec, version: str) -> bool:
    try:
        check_change(ctx, changed(tenant, version))
    except (SpecError, Unavailable):
        return False
    return True
