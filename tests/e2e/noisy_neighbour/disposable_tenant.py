"""A tenant for one test, whose namespace on the host the test deletes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lab.config import TenantSpec
from lab.config.added_tenants import TenantRequest
from lab.config.node_assignment import tenant_nodes, worker_names
from lab.errors import LabError
from lab.operations.tenant.add import add
from lab.operations.tenant.remove import remove
from lab.session.lab import Lab
from lab.workloads.namespace import WorkloadNamespace

from ..scheduling_decisions import WAIT
from .faults import Intensify
from .own_kai import OwnKai

NAME = "disposable"


@contextmanager
def disposable_tenant(lab: Lab, like: TenantSpec) -> Iterator[TenantSpec]:
    """Add a tenant for one test; at the end remove it and verify that nothing of it is left.

    The tenant has its own KAI, of the version of ``like``, if a worker is free for it. Otherwise it has no KAI; its
    lifecycle is the same.

    Raises:
        Leftovers: objects of the tenant are left.
    """
    try:
        own = {"mode": "own-kai", "kaiVersion": like.kai_version, "kubernetes": like.kubernetes}
        yield _added(lab, own if _shared_workers(lab) > 1 else {"mode": "default"})
    finally:
        if NAME in {tenant.name for tenant in lab.tenants}:
            remove(lab, NAME, ask=lambda _: True).removal.raise_left()


def _added(lab: Lab, data: dict[str, Any]) -> TenantSpec:
    return add(lab, TenantRequest({"name": NAME, **data}), ask=lambda _: True).tenant


def _shared_workers(lab: Lab) -> int:
    """Count the workers that no tenant has as dedicated nodes; the host and the other tenants need one of them."""
    return len(worker_names(lab.spec)) - sum(len(names) for names in tenant_nodes(lab.spec).values())


@contextmanager
def namespace_deleted(own: OwnKai, workloads: WorkloadNamespace) -> Iterator[Intensify]:
    """Delete the tenant's namespace on the host, as a user might by mistake; Kubernetes must finish the deletion."""
    host = own.lab.cluster
    if host.get("Namespace", own.namespace) is None:
        raise LabError(f"Namespace {own.namespace} does not exist and cannot be deleted", fix="kailab tenant status")
    host.delete("Namespace", own.namespace)
    yield lambda: None
    host.wait(
        "Namespace",
        lambda spaces: not spaces,
        fields=f"metadata.name={own.namespace}",
        timeout=WAIT,
        what=f"namespace {own.namespace} is gone",
    )
