"""The scopes that ``kailab verify`` watches."""

from __future__ import annotations

from lab.invariants.scope import Member, Scope, scopes_of
from lab.session.lab import Lab


def scopes_of_lab(lab: Lab) -> tuple[Scope, ...]:
    """The scopes of a running lab: its own cluster and its tenants."""
    tenants = {
        tenant.name: Member(lab.tenant(tenant.name), tenant.mode, tenant.kai_version or "") for tenant in lab.tenants
    }
    return scopes_of(lab.cluster, tenants, lab.kai_version or "")
