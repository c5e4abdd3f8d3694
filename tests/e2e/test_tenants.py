"""vClusters: KAI schedules in those that use it, and leaves the others alone."""

from __future__ import annotations

import stat
from collections.abc import Callable

import pytest

from lab.pytest_plugin.fixtures import TenantFixture
from lab.session.lab import Lab
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod, gpu_pod

from .checks import on_one_node
from .syncing import copied

DEFAULT_SCHEDULER = "default-scheduler"


@pytest.mark.kai
@pytest.mark.tenants("host-kai")
def test_what_kai_writes_is_seen_in_the_tenant(tenant: TenantFixture, workloads: WorkloadNamespace, queue: str) -> None:
    workloads.submit(cpu_pod("seen", queue=queue))
    (on_host,) = workloads.running("seen")
    # The syncer copies annotations by difference; it may take more than one round.
    (virtual,) = copied(
        workloads,
        lambda pod: bool(pod.ready and pod.pod_group and pod.received_resource_type),
        "seen",
        what="Ready, with KAI's annotations,",
    )
    assert virtual.pod_group == on_host.pod_group
    assert virtual.received_resource_type == on_host.received_resource_type == "Regular"
    assert virtual.node == on_host.node
    crd = tenant.cluster.get("CustomResourceDefinition", "podgroups.scheduling.run.ai")
    assert crd is None, "no PodGroup CRD is needed in a tenant"


def assert_kai_kept_away(workloads: WorkloadNamespace, name: str) -> None:
    """The pod runs, without any of KAI's labels, annotations or objects."""
    (pod,) = workloads.running(name)
    assert pod.scheduler_name == DEFAULT_SCHEDULER
    assert workloads.event(pod, "Scheduled").reporter == DEFAULT_SCHEDULER
    assert (pod.pod_group, pod.received_resource_type, pod.gpu_groups) == ("", "", ())
    # All of the tenant's pods share this namespace of the host.
    assert workloads.host.list("PodGroup", pod.namespace) == []


@pytest.mark.without_kai
@pytest.mark.tenants("default")
def test_default_tenant_never_sees_kai(tenant: TenantFixture, workloads: WorkloadNamespace) -> None:
    workloads.submit(cpu_pod("plain", scheduler=None))
    assert_kai_kept_away(workloads, "plain")


@pytest.mark.without_kai
@pytest.mark.tenants("default")
@pytest.mark.devices
@on_one_node()
def test_default_tenant_gets_whole_gpus(tenant: TenantFixture, workloads: WorkloadNamespace) -> None:
    workloads.submit(gpu_pod("research", scheduler=None))
    assert_kai_kept_away(workloads, "research")
    (pod,) = workloads.host_pods()
    inside = workloads.look(pod)
    assert len(inside.gpus) == len(inside.visible) == 1


@pytest.mark.without_kai
@pytest.mark.tenants(min=2)
def test_tenants_do_not_see_each_other(lab: Lab, new_workloads: Callable[[str], WorkloadNamespace]) -> None:
    mine, other = (new_workloads(tenant.name) for tenant in lab.tenants[:2])
    mine.submit(cpu_pod("mine", scheduler=None))
    mine.running("mine")
    pods = other.cluster.list("Pod")
    assert "mine" not in {pod["metadata"]["name"] for pod in pods}
    assert other.cluster.get("Namespace", mine.namespace) is None


@pytest.mark.without_kai
@pytest.mark.tenants
def test_kubeconfigs_are_private(lab: Lab) -> None:
    files = [lab.paths.kubeconfig, *(lab.paths.tenant_kubeconfig(tenant.name) for tenant in lab.tenants)]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files}
    assert modes == dict.fromkeys(modes, 0o600)
