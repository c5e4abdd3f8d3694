"""Rules for changes of a running tenant. Pure.

vCluster itself checks little (0.36.1: ``ValidateChanges`` in config/config.go, called by pkg/cli/create_helm.go at an
upgrade and for the store again at start, pkg/setup/config): the backing store and ``sync.toHost.namespaces`` may not
change. It accepts an older version of the control plane and a jump over several Kubernetes minors, which break later
without an error, so the lab refuses these too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lab.config import TenantSpec
from lab.config.tenant_rules import VCLUSTER_FLOOR
from lab.kai import release
from lab.steps.helm_release import value_at
from lab.tenants.vcluster.values import CLAIM, tenant_values

_ETCD = "controlPlane.backingStore.etcd"
_DATABASE = "controlPlane.backingStore.database.external.enabled"
_NAMESPACES = "sync.toHost.namespaces"

_MAY_FOLLOW = {
    "deployed etcd": ("sqlite", "external etcd"),
    "embedded etcd": ("sqlite", "external etcd", "deployed etcd"),
    "external database": ("sqlite",),
}
"""Store → the stores that it can replace."""


def forbidden(there: TenantSpec, wanted: TenantSpec) -> tuple[str, ...]:
    """Reasons why a running tenant cannot be changed, one sentence each; empty when it can.

    Args:
        there: the running tenant.
        wanted: the tenant after the change.
    """
    return (*_versions(there, wanted), *_kubernetes(there, wanted), *_store(there, wanted), *_data(there, wanted))


def _versions(there: TenantSpec, wanted: TenantSpec) -> Iterator[str]:
    if wanted.mode != "own-kai" and wanted.kai_version != there.kai_version:
        yield f"mode {wanted.mode} has no KAI inside: only tenants of mode own-kai can change theirs"
    if release(wanted.vcluster) < release(VCLUSTER_FLOOR):
        yield (
            f"vCluster {wanted.vcluster} is below {VCLUSTER_FLOOR}, the oldest that keeps pods healthy with older"
            " Kubernetes inside (loft-sh/vcluster#4037)"
        )
    elif release(wanted.vcluster) < release(there.vcluster):
        yield (
            f"vCluster {there.vcluster} → {wanted.vcluster} is a downgrade: its objects on the host and its database"
            " are not converted to an older version"
        )


def _kubernetes(there: TenantSpec, wanted: TenantSpec) -> Iterator[str]:
    old, new = release(there.kubernetes), release(wanted.kubernetes)
    if new[:2] < old[:2]:
        yield (
            f"Kubernetes {there.kubernetes} → {wanted.kubernetes} inside is a downgrade: an older API server cannot"
            " read everything that a newer one has stored"
        )
    elif new[0] != old[0] or new[1] > old[1] + 1:
        yield (
            f"Kubernetes {there.kubernetes} → {wanted.kubernetes} inside skips a minor: API servers are upgraded one"
            f" minor at a time (Kubernetes' version skew policy); first {old[0]}.{old[1] + 1}"
        )


def _store(there: TenantSpec, wanted: TenantSpec) -> Iterator[str]:
    have, want = tenant_values(there), tenant_values(wanted)
    old, new = store_of(have), store_of(want)
    if old != new and old not in _MAY_FOLLOW.get(new, ()):
        yield f"the backing store would change from {old} to {new}: vCluster refuses it (config.ValidateStoreChanges)"
    if value_at(have, _NAMESPACES) != value_at(want, _NAMESPACES):
        yield f"{_NAMESPACES} may not change while a vCluster exists (config.ValidateNamespaceSyncChanges)"


def _data(there: TenantSpec, wanted: TenantSpec) -> Iterator[str]:
    """A new control plane pod starts with an empty volume unless the volume is a claim."""
    replaced = (there.vcluster, there.kubernetes) != (wanted.vcluster, wanted.kubernetes)
    values = tenant_values(there)
    if replaced and store_of(values) == "sqlite" and value_at(values, CLAIM) is False:
        yield (
            "its data is in an emptyDir, which a new control plane does not get: all objects inside would be lost."
            f" Recreate the tenant in the other version, without values.{CLAIM}: false"
        )


def store_of(values: dict[str, Any]) -> str:
    """The backing store of a control plane (StoreType in vCluster's config/config.go)."""
    for key, name in (("deploy", "deployed etcd"), ("embedded", "embedded etcd"), ("external", "external etcd")):
        if value_at(values, f"{_ETCD}.{key}.enabled"):
            return name
    return "external database" if value_at(values, _DATABASE) else "sqlite"
