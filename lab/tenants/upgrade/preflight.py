"""Checks before an upgrade whether a tenant can have another KAI version."""

from __future__ import annotations

import contextlib

from lab.config import TenantSpec, queue_rules
from lab.config.rules import kai_on
from lab.errors import SpecError, Unavailable
from lab.kai import line_of, release
from lab.kai.names import KAI_CHART
from lab.session.context import LabContext
from lab.steps.kai.values import kai_images
from lab.supply import Item
from lab.tenants.vcluster.inner_lab import tenant_context


def with_kai_version(tenant: TenantSpec, version: str) -> TenantSpec:
    """The tenant with another KAI version. Raises SpecError: invalid version, or a tenant without its own KAI."""
    if tenant.mode != "own-kai":
        raise SpecError(
            f"tenant {tenant.name} has no KAI of its own (mode {tenant.mode})",
            fix="name a tenant of mode own-kai; kai.version and 'lab up' change the host's KAI",
        )
    release(version)
    return tenant.model_copy(update={"kai_version": version.removeprefix("v")})


def check_kai_version(ctx: LabContext, tenant: TenantSpec) -> tuple[str, ...]:
    """Check whether a tenant can have its ``kai_version``; returns warnings.

    Raises:
        SpecError: the version does not support the tenant's Kubernetes or queues, or is too old.
        Unavailable: its chart or an image is not available.
    """
    version, at = str(tenant.kai_version), ("kaiVersion",)
    broken = [
        *kai_on(version, tenant.kubernetes, at, ("kubernetes",)),
        *queue_rules.levels(tenant.queues, ("queues",), version, at),
    ]
    if broken:
        raise SpecError(
            f"tenant {tenant.name} cannot have KAI {version}: {broken[0].what}",
            evidence=[rule.what for rule in broken[1:]],
            fix="name another version: 'lab kai versions' lists what they support; a tenant keeps its Kubernetes",
        )
    line = line_of(version)
    images = [Item("image", reference) for reference in kai_images(tenant_context(ctx, tenant).spec)]
    choices = ctx.supply.choose([Item("chart", KAI_CHART, line.tag), *images]).values()
    if missing := [choice for choice in choices if not choice.available]:
        raise Unavailable(
            f"KAI {version} is not available for tenant {tenant.name}",
            evidence=[f"{choice.item}: {'; '.join(choice.why)}" for choice in missing],
            fix=missing[0].fix,
        )
    return (line.warning,) if line.warning else ()


def bundled_versions(ctx: LabContext, tenant: TenantSpec) -> tuple[str, ...]:
    """Other KAI versions that this tenant can have and bundles on this machine contain; oldest first."""
    charts = {
        entry.version.removeprefix("v")
        for bundle in ctx.supply.bundles
        for entry in bundle.entries
        if (entry.kind, entry.name) == ("chart", KAI_CHART)
    }
    found = []
    for version in charts - {tenant.kai_version}:
        with contextlib.suppress(SpecError, Unavailable):
            check_kai_version(ctx, with_kai_version(tenant, version))
            found.append(version)
    return tuple(sorted(found, key=release))
