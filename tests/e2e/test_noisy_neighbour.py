"""Noisy neighbours: whatever fails inside a tenant, its neighbours' pods keep running and are scheduled as fast.

Neighbours are the host and every other tenant. Each schedules small pods with its own scheduler before, during and
after the fault, timed by watches. None of its running pods may change. ``noisy_neighbour/table.py`` prints the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from lab.pytest_plugin.fixtures import TenantFixture
from lab.session.lab import Lab
from lab.workloads.namespace import WorkloadNamespace

from .noisy_neighbour.course import monitor_fault, problems, save
from .noisy_neighbour.disposable_tenant import disposable_tenant, namespace_deleted
from .noisy_neighbour.faults import Fault, repairable_faults
from .noisy_neighbour.neighbours import neighbours_of
from .noisy_neighbour.own_kai import OwnKai

PENDING, MANY = 150, 500
NAMESPACE_DELETED = Fault("namespace-deleted", "its namespace on the host is deleted", namespace_deleted)

pytestmark = [
    pytest.mark.tenants("own-kai"),
    pytest.mark.disturbs("a fault is injected into a tenant"),
    pytest.mark.timeout(1500),
    pytest.mark.usefixtures("gpu_lock", "free_gpus"),
]

FAULTS = [
    *(pytest.param(fault, id=fault.id) for fault in repairable_faults(PENDING)),
    *(
        pytest.param(replace(fault, id=f"{fault.id}-{MANY}"), id=f"{fault.id}-{MANY}", marks=pytest.mark.long)
        for fault in repairable_faults(MANY)
        if fault.id == "pending-pods"
    ),
]


class Repair:
    """Repairs the tenant."""

    def __init__(self, own: OwnKai, new_workloads: Callable[..., WorkloadNamespace]) -> None:
        self.own = own
        self.new_workloads = new_workloads
        self.done = False

    def __call__(self) -> None:
        """Repair the tenant, and verify that its KAI schedules. Raises LabError."""
        self.own.repair(self.new_workloads)
        self.done = True


@pytest.fixture
def own(lab: Lab, tenant: TenantFixture) -> OwnKai:
    """The tenant's KAI; skips when the tenant has no neighbours."""
    if len(lab.tenants) < 2 and not lab.has_kai:
        pytest.skip("needs neighbours: another tenant, or KAI on the host")
    return OwnKai(lab, tenant.spec)


@pytest.fixture
def repair(own: OwnKai, new_workloads: Callable[..., WorkloadNamespace]) -> Iterator[Repair]:
    """The tenant's repair; runs at the end, unless the test ran it."""
    repair = Repair(own, new_workloads)
    yield repair
    if not repair.done:
        repair()


@pytest.mark.parametrize("fault", FAULTS)
def test_neighbours_do_not_notice(
    fault: Fault,
    own: OwnKai,
    repair: Repair,
    new_workloads: Callable[..., WorkloadNamespace],
    queue: str,
    request: pytest.FixtureRequest,
) -> None:
    target = new_workloads(own.tenant.name)
    report = monitor_fault(neighbours_of(own, new_workloads, queue), fault.inject(own, target), repair)
    path = save(request, fault, own, report)
    assert problems(report) == [], f"figures: {path}"


@pytest.mark.long
def test_neighbours_do_not_notice_that_a_namespace_is_deleted(
    lab: Lab, own: OwnKai, new_workloads: Callable[..., WorkloadNamespace], queue: str, request: pytest.FixtureRequest
) -> None:
    """Uses a disposable tenant; its normal removal then deletes what is left of it on the host."""
    with disposable_tenant(lab, own.tenant) as spec:
        disposable = OwnKai(lab, spec)
        fault = NAMESPACE_DELETED.inject(disposable, new_workloads())
        report = monitor_fault(neighbours_of(disposable, new_workloads, queue), fault, lambda: None)
    path = save(request, NAMESPACE_DELETED, disposable, report)
    assert problems(report) == [], f"figures: {path}"
