"""What is judged as one: a cluster with a KAI of its own, and the tenants that live on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.errors import SpecError
from lab.kai import line_of, release
from lab.kube import Cluster

OWN_KAI = "own-kai"
"""Mode of tenants with a KAI of their own (lab file, tenants[].mode)."""


@dataclass(frozen=True)
class Scope:
    """One cluster to judge."""

    name: str
    """Empty for the cluster that was named, otherwise the tenant whose own cluster it is."""
    cluster: Cluster
    tenants: Mapping[str, Cluster] = field(default_factory=dict)
    """Tenants whose APIs are looked at too."""
    own_kai: frozenset[str] = frozenset()
    """Tenants known to have a KAI of their own."""
    kai_version: str = ""
    """Empty: not known."""

    @property
    def side(self) -> str:
        """As findings name it: ``tenant NAME``, or empty."""
        return f"tenant {self.name}" if self.name else ""


@dataclass(frozen=True)
class Member:
    """A tenant of a cluster."""

    cluster: Cluster
    mode: str
    """As in lab files."""
    kai_version: str = ""
    """Of its own KAI; empty: not known."""


def scopes_of(
    cluster: Cluster, tenants: Mapping[str, Member] | None = None, kai_version: str = ""
) -> tuple[Scope, ...]:
    """The scopes of a cluster: itself, then every tenant with a KAI of its own.

    Args:
        cluster: the host of the tenants.
        tenants: by their names.
        kai_version: of the host's KAI.
    """
    every = tenants or {}
    own = {name: tenant for name, tenant in sorted(every.items()) if tenant.mode == OWN_KAI}
    host = Scope("", cluster, {name: tenant.cluster for name, tenant in every.items()}, frozenset(own), kai_version)
    return (host, *(Scope(name, tenant.cluster, kai_version=tenant.kai_version) for name, tenant in own.items()))


def known_faults(kai_version: str) -> dict[str, str]:
    """The faults that a KAI version is known for, by their ids, in words; empty for a version nobody knows."""
    if not kai_version:
        return {}
    try:
        defects = line_of(kai_version).defects
    except SpecError:
        return {}
    return {
        defect.id: f"KAI {kai_version} is known for this: {defect.what} ({defect.issue})"
        for defect in defects
        if not defect.fixed_in or release(kai_version) < release(defect.fixed_in)
    }
