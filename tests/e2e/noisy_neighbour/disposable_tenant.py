"""A tenant of a test's own, whose namespace on the host is deleted by hand."""

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
from tests.e2e.scheduling_decisions import WAIT

from .faults import Stoke
from .own_kai import OwnKai

NAME = "doomed"


@contextmanager
def doomed_tenant(lab: Lab, like: TenantSpec) -> Iterator[TenantSpec]:
    """A tenant added for one test, taken away at its end with proof that nothing of it is left.

    It has a KAI of its own, as ``like`` has, where a worker can be spared for it; otherwise it is one without KAI,
    which lives and goes in the same way.

    Raises:
        Leftovers: something of it is left.
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
    """How many workers are no tenant's own; one must stay for the host and the tenants that share."""
    return len(worker_names(lab.spec)) - sum(len(names) for names in tenant_nodes(lab.spec).values())


@contextmanager
def namespace_deleted(own: OwnKai, workloads: WorkloadNamespace) -> Iterator[Stoke]:
    """The tenant's namespace on the host is deleted, as somebody would who knows no better; it must go by itself."""
    host = own.lab.cluster
    if host.get("Namespace", own.namespace) is None:
        raise LabError(f"there is no namespace {own.namespace} to delete", fix="lab tenant status")
    host.delete("Namespace", own.namespace)
    yield lambda: None
    host.wait(
        "Namespace",
        lambda spaces: not spaces,
        fields=f"metadata.name={own.namespace}",
        timeout=WAIT,
        what=f"namespace {own.namespace} is gone",
    )
