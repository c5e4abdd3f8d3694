"""The clusters that are verified one by one: each cluster with its own KAI, with the tenants on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.errors import SpecError
from lab.kai import line_of
from lab.kube import Cluster

OWN_KAI = "own-kai"
"""Mode of tenants with their own KAI (lab file, tenants[].mode)."""


@dataclass(frozen=True)
class Scope:
    """One cluster to verify."""

    name: str
    """The tenant, or empty for the given cluster."""
    cluster: Cluster
    tenants: Mapping[str, Cluster] = field(default_factory=dict)
    """Tenants whose APIs are read as well."""
    own_kai: frozenset[str] = frozenset()
    """Tenants known to have their own KAI; others are detected by its pods."""
    kai_version: str = ""
    """Empty if unknown."""

    @property
    def side(self) -> str:
        """The cluster in findings: ``tenant NAME``, or empty."""
        return f"tenant {self.name}" if self.name else ""


@dataclass(frozen=True)
class Member:
    """A tenant of a cluster."""

    cluster: Cluster
    mode: str
    """As in lab files."""
    kai_version: str = ""
    """Version of its own KAI; empty if unknown."""


def scopes_of(
    cluster: Cluster, tenants: Mapping[str, Member] | None = None, kai_version: str = ""
) -> tuple[Scope, ...]:
    """The scopes of a cluster: the cluster itself, then every tenant with its own KAI."""
    every = tenants or {}
    own = {name: tenant for name, tenant in sorted(every.items()) if tenant.mode == OWN_KAI}
    host = Scope("", cluster, {name: tenant.cluster for name, tenant in every.items()}, frozenset(own), kai_version)
    return (host, *(Scope(name, tenant.cluster, kai_version=tenant.kai_version) for name, tenant in own.items()))


def known_defects_of(kai_version: str) -> dict[str, str]:
    """Descriptions of the known defects of a KAI version by id; empty for an unknown version."""
    if not kai_version:
        return {}
    try:
        defects = line_of(kai_version).defects
    except SpecError:
        return {}
    return {defect.id: f"known defect of KAI {kai_version}: {defect.what} ({defect.issue})" for defect in defects}
