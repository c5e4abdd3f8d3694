"""A tenant in flames: whatever happens inside one, its neighbours' pods run on and are scheduled as fast as before.

Neighbours are the host and every other tenant. Each of them schedules small pods by its own scheduler before, during
and after the fire, timed by watches. None of its running pods may change. ``noisy_neighbour/table.py``
prints the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from lab.pytest_plugin.fixtures import TenantFixture
from lab.session.lab import Lab
from lab.workloads.namespace import WorkloadNamespace

from .noisy_neighbour.course import course, keep, wrong
from .noisy_neighbour.disposable_tenant import doomed_tenant, namespace_deleted
from .noisy_neighbour.faults import Fire, fires
from .noisy_neighbour.neighbours import neighbours_of
from .noisy_neighbour.own_kai import OwnKai

PENDING, MANY = 150, 500
NAMESPACE_DELETED = Fire("namespace-deleted", "its namespace on the host is deleted by hand", namespace_deleted)

pytestmark = [
    pytest.mark.tenants("own-kai"),
    pytest.mark.disturbs("a tenant burns"),
    pytest.mark.timeout(1500),
    pytest.mark.usefixtures("gpu_lock", "free_gpus"),
]

FIRES = [
    *(pytest.param(fire, id=fire.id) for fire in fires(PENDING)),
    *(
        pytest.param(replace(fire, id=f"{fire.id}-{MANY}"), id=f"{fire.id}-{MANY}", marks=pytest.mark.long)
        for fire in fires(MANY)
        if fire.id == "pending-pods"
    ),
]


class Mend:
    """Makes the tenant whole, once."""

    def __init__(self, own: OwnKai, new_place: Callable[..., WorkloadNamespace]) -> None:
        self.own = own
        self.new_place = new_place
        self.done = False

    def __call__(self) -> None:
        """Do it, and prove that the tenant's KAI schedules. Raises LabError."""
        self.own.mend(self.new_place)
        self.done = True


@pytest.fixture
def own(lab: Lab, tenant: TenantFixture) -> OwnKai:
    """The tenant's KAI; skips where the tenant has no neighbours."""
    if len(lab.tenants) < 2 and not lab.has_kai:
        pytest.skip("needs neighbours: another tenant, or KAI on the host")
    return OwnKai(lab, tenant.spec)


@pytest.fixture
def mend(own: OwnKai, new_place: Callable[..., WorkloadNamespace]) -> Iterator[Mend]:
    """At the end the tenant is whole and its KAI schedules, whatever the test came to."""
    mend = Mend(own, new_place)
    yield mend
    if not mend.done:
        mend()


@pytest.mark.parametrize("fire", FIRES)
def test_neighbours_do_not_notice(
    fire: Fire,
    own: OwnKai,
    mend: Mend,
    new_place: Callable[..., WorkloadNamespace],
    queue: str,
    request: pytest.FixtureRequest,
) -> None:
    burning = new_place(own.tenant.name)
    report = course(neighbours_of(own, new_place, queue), fire.light(own, burning), mend)
    path = keep(request, fire, own, report)
    assert wrong(report) == [], f"figures: {path}"


@pytest.mark.long
def test_neighbours_do_not_notice_that_a_namespace_is_deleted(
    lab: Lab, own: OwnKai, new_place: Callable[..., WorkloadNamespace], queue: str, request: pytest.FixtureRequest
) -> None:
    """With a tenant of its own, which is gone then: what is left of it on the host is taken away as usual."""
    with doomed_tenant(lab, own.tenant) as spec:
        doomed = OwnKai(lab, spec)
        fire = NAMESPACE_DELETED.light(doomed, new_place())
        report = course(neighbours_of(doomed, new_place, queue), fire, lambda: None)
    path = keep(request, NAMESPACE_DELETED, doomed, report)
    assert wrong(report) == [], f"figures: {path}"
