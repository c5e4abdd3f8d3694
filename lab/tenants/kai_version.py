"""The KAI versions that a tenant can have."""

from __future__ import annotations

import contextlib

from lab.config import TenantSpec
from lab.errors import SpecError, Unavailable
from lab.kai import release
from lab.kai.names import KAI_CHART
from lab.session.context import LabContext
from lab.steps.kai.upgrade.preflight import check_kai_version
from lab.tenants.vcluster.inner_lab import tenant_context


def with_kai_version(tenant: TenantSpec, version: str) -> TenantSpec:
    """The tenant with another KAI version. Raises SpecError: invalid version, or a tenant without its own KAI."""
    if tenant.mode != "own-kai":
        raise SpecError(
            f"tenant {tenant.name} has no KAI of its own (mode {tenant.mode})",
            fix="name a tenant of mode own-kai; 'kailab kai upgrade' changes the host's KAI",
        )
    release(version)
    return tenant.model_copy(update={"kai_version": version.removeprefix("v")})


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
            check_kai_version(tenant_context(ctx, with_kai_version(tenant, version)), f"tenant {tenant.name}")
            found.append(version)
    return tuple(sorted(found, key=release))
