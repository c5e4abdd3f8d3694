"""A tenant's KAI changes to another version and back under load: running pods keep running, new ones are placed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.operations.kai.cluster_kai import TenantKai
from lab.operations.kai.rehearse import rehearse, roll_back
from lab.pytest_plugin.fixtures import TenantFixture
from lab.session.lab import Lab
from lab.snapshot.node_info import FreeGpus, read_node_infos
from lab.steps.kai.upgrade.change import READY, STOPPED, Change
from lab.steps.kai.upgrade.downtime_probe import RUNNING, SCHEDULED
from lab.steps.kai.upgrade.smoke_test import smoke_test_queue
from lab.steps.kai.upgrade.workload_snapshot import take_snapshot
from lab.tenants.kai_version import bundled_versions
from lab.tenants.vcluster.inner_lab import inner_spec
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import fraction_pod, gpu_pod

WAIT = 180.0
LOAD = ("whole", "half", "quarter")

Record = Callable[[str, object], None]


@pytest.fixture
def other_version(lab: Lab, tenant: TenantFixture) -> str:
    """The newest other KAI version that is available for the tenant."""
    found = bundled_versions(lab.context(f"kai:{tenant.name}"), tenant.spec)
    if not found:
        pytest.skip(
            f"needs a second KAI version in a bundle that runs on Kubernetes {tenant.spec.kubernetes}, beside"
            f" {tenant.spec.kai_version} of tenant {tenant.name}"
        )
    return found[-1]


@pytest.fixture
def load(lab: Lab, tenant: TenantFixture, new_workloads: Callable[[str], WorkloadNamespace]) -> WorkloadNamespace:
    """A whole-GPU pod, and two fractions on one GPU, that run in the tenant."""
    if not tenant.spec.gpu_sharing:
        pytest.skip(f"needs gpuSharing in tenant {tenant.name}")
    room = FreeGpus.of(read_node_infos(tenant.cluster))
    if room.gpus < 2:
        pytest.skip(f"needs 2 free GPUs in tenant {tenant.name}, there are {room.gpus}")
    queue = smoke_test_queue(inner_spec(lab.spec, tenant.spec))
    workloads = new_workloads(tenant.name)
    # One after the other: while a fraction is bound, another bind may cost it its GPU (early-reservation-removal).
    for pod in (
        fraction_pod("half", fraction=0.5, queue=queue),
        fraction_pod("quarter", fraction=0.25, queue=queue),
        gpu_pod("whole", queue=queue),
    ):
        workloads.submit(pod)
        workloads.inside(lambda pod: pod.ready, pod["metadata"]["name"], timeout=WAIT, what="Ready")
    _, half, quarter = workloads.inside(lambda pod: pod.ready, *LOAD, timeout=WAIT, what="Ready")
    assert half.gpu_groups
    assert half.gpu_groups == quarter.gpu_groups
    return workloads


def note_times(record: Record, change: Change | None, prefix: str) -> None:
    """Record the duration of a change in the report."""
    assert change is not None
    for name in (STOPPED, SCHEDULED, RUNNING, READY):
        seconds = change.at(name)
        assert seconds is not None, f"{prefix}: {name} was not reached: {change.problems}"
        record(f"kailab.{prefix}: {name}", f"{seconds:.1f} s")


@pytest.mark.tenants("own-kai")
@pytest.mark.gpus(min=2)
@pytest.mark.disturbs("a tenant's KAI is exchanged")
@pytest.mark.timeout(1800)
def test_another_version_and_back_under_load(
    lab: Lab, tenant: TenantFixture, other_version: str, load: WorkloadNamespace, record_property: Record
) -> None:
    """Whole GPU and fractions keep their UIDs, restarts and GPUs both ways; the queues report the same."""
    kai, first = TenantKai(lab, tenant.name), take_snapshot(tenant.cluster)
    back = None
    try:
        found = rehearse(kai, other_version, suites=False)
        assert not found.reasons, f"KAI {first.kai} → {other_version}: {found.reasons}"
        assert found.missing == ("suites: left out (--no-suites)",)
        assert found.now == other_version
        tried = {trial.name: trial for trial in found.trials}
        assert tried["cpu"].seconds is not None
        assert tried["fraction"].seconds is not None, tried["fraction"].skipped
        note_times(record_property, found.change, f"KAI {first.kai} → {other_version}")
        there = take_snapshot(tenant.cluster)
        assert there.kai == other_version
        assert {name: there.queues.get(name) for name in first.queues} == first.queues
        back = roll_back(kai)
    finally:
        if back is None:
            roll_back(kai, first.kai)
    assert back.green, f"KAI {other_version} → {first.kai}: {back.reasons}"
    note_times(record_property, back.change, f"KAI {other_version} → {first.kai}")
    last = take_snapshot(tenant.cluster)
    assert last.kai == first.kai
    before = {pod.title: pod for pod in first.pods if pod.title.startswith(f"{load.namespace}/")}
    after = {pod.title: pod for pod in last.pods if pod.title in before}
    assert len(before) == len(LOAD)
    assert after == before
    load.inside(lambda pod: pod.ready, *LOAD, timeout=WAIT, what="Ready")
