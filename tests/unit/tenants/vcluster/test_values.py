from __future__ import annotations

from typing import Any

import pytest

from lab.config import TenantQuota
from lab.steps.helm_release import value_at, with_value
from lab.tenants.vcluster.quota import hard_limits, quota_values
from lab.tenants.vcluster.values import first_claim, release_values, tenant_images, tenant_values
from lab.tenants.virtual_cluster import VirtualCluster
from tests.support.specs import PORT, lab_with, tenant_spec


def test_values_of_mode_host_kai() -> None:
    values = tenant_values(tenant_spec())
    assert value_at(values, "experimental.syncSettings.setOwner") is False
    assert value_at(values, "sync.fromHost.priorityClasses.enabled") is True
    assert value_at(values, "sync.fromHost.runtimeClasses.enabled") is True
    assert value_at(values, "sync.fromHost.nodes") is None


def test_values_of_mode_default() -> None:
    values = tenant_values(tenant_spec("default"))
    assert value_at(values, "experimental") is None
    assert value_at(values, "sync.fromHost") == {"runtimeClasses": {"enabled": True}}


def test_values_of_mode_own_kai() -> None:
    values = tenant_values(tenant_spec("own-kai"))
    assert value_at(values, "controlPlane.advanced.virtualScheduler.enabled") is True
    assert value_at(values, "sync.fromHost") == {"nodes": {"enabled": True}, "runtimeClasses": {"enabled": True}}
    # keep garbage collection and the classes that KAI's chart creates inside
    assert value_at(values, "experimental") is None
    assert value_at(values, "sync.toHost.priorityClasses") is None


def test_claim_of_the_first_control_plane_is_that_of_its_statefulset() -> None:
    claim = first_claim("team-a", tenant_values(tenant_spec()))
    assert claim is not None
    assert claim["metadata"] == {"name": "data-team-a-0", "namespace": "vcluster-team-a"}
    assert claim["spec"]["resources"] == {"requests": {"storage": "5Gi"}}


@pytest.mark.parametrize(
    "change",
    [
        {"volumeClaim": {"enabled": False}},
        {"volumeClaim": {"storageClass": "fast"}},
        {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
    ],
)
def test_other_storage_is_left_to_the_chart(change: dict[str, object]) -> None:
    values = {"controlPlane": {"statefulSet": {"persistence": change}}}
    assert first_claim("team-a", tenant_values(tenant_spec(values=values))) is None


@pytest.mark.parametrize("mode", ["own-kai", "default"])
def test_dedicated_nodes_are_selected_and_tolerated(mode: str) -> None:
    tenant = tenant_spec(mode, nodes=1)
    values = release_values(lab_with(tenant), tenant, PORT)
    assert value_at(values, "sync.fromHost.nodes") == {
        "enabled": True,
        "selector": {"labels": {"kailab.dev/tenant": "team-a"}},
    }
    assert value_at(values, "sync.toHost.pods.enforceTolerations") == ["kailab.dev/tenant=team-a:NoSchedule"]
    assert value_at(values, "sync.toHost.pods.rewriteHosts.enabled") is False


def test_own_kai_has_a_dedicated_node_by_default() -> None:
    tenant = tenant_spec("own-kai")
    values = release_values(lab_with(tenant), tenant, PORT)
    assert value_at(values, "sync.fromHost.nodes.selector.labels") == {"kailab.dev/tenant": "team-a"}


def test_other_modes_share_the_nodes() -> None:
    spec = lab_with(tenant_spec(), tenant_spec("default", "team-b"))
    for tenant in spec.tenants:
        assert value_at(release_values(spec, tenant, PORT), "sync.fromHost.nodes") is None


def test_gpu_quota_needs_no_limit_range() -> None:
    values = tenant_values(tenant_spec(quota={"gpus": 2}))
    quota = value_at(values, "policies.resourceQuota")
    assert quota["enabled"] is True
    assert {name: amount for name, amount in quota["quota"].items() if amount is not None} == {
        "requests.nvidia.com/gpu": "2"
    }
    assert value_at(values, "policies.limitRange") == {"enabled": False}


def test_cpu_quota_adds_default_requests() -> None:
    quota = TenantQuota.model_validate({"gpus": 1, "cpu": 8, "memory": "16Gi", "pods": 30})
    assert hard_limits(quota) == {
        "requests.nvidia.com/gpu": "1",
        "requests.cpu": "8",
        "requests.memory": "16Gi",
        "pods": "30",
    }
    limits = quota_values(quota)["policies"]["limitRange"]
    assert limits["enabled"] is True
    # the chart's default is 3 GiB of ephemeral storage per container
    assert limits["defaultRequest"] == {"cpu": "50m", "memory": "32Mi", "ephemeral-storage": None}
    assert set(limits["default"].values()) == {None}
    only_cpu = quota_values(TenantQuota(cpu="8"))["policies"]["limitRange"]["defaultRequest"]
    assert only_cpu == {"cpu": "50m", "memory": None, "ephemeral-storage": None}


def test_no_quota_adds_no_values() -> None:
    assert quota_values(TenantQuota()) == {}
    assert value_at(tenant_values(tenant_spec()), "policies") is None


@pytest.mark.parametrize("mode", ["host-kai", "default", "own-kai"])
def test_all_modes_use_open_source_images_a_volume_and_no_telemetry(mode: str) -> None:
    values = tenant_values(tenant_spec(mode, kubernetes="1.33.4"))
    assert value_at(values, "controlPlane.statefulSet.image.repository") == "loft-sh/vcluster-oss"
    claim = value_at(values, "controlPlane.statefulSet.persistence.volumeClaim")
    assert claim == {"enabled": True, "storageClass": "kailab", "retentionPolicy": "Delete"}
    assert value_at(values, "sync.toHost.pods.rewriteHosts.enabled") is False
    assert value_at(values, "telemetry.enabled") is False
    assert value_at(values, "controlPlane.distro.k8s.version") == "v1.33.4"


def test_access_values_take_precedence() -> None:
    values = release_values(lab_with(tenant_spec()), tenant_spec(), PORT)
    assert value_at(values, "controlPlane.service") == {"spec": {"type": "NodePort"}, "httpsNodePort": 30440}
    assert values["exportKubeConfig"] == {"server": "https://127.0.0.1:41000", "context": "kailab-demo-team-a"}


def test_images_of_a_tenant() -> None:
    assert tenant_images(tenant_spec()) == (
        "ghcr.io/loft-sh/vcluster-oss:0.36.1",
        "ghcr.io/loft-sh/kubernetes:v1.34.4",
        "registry.k8s.io/coredns/coredns:v1.12.4",
    )


def test_kubernetes_version_selects_the_image() -> None:
    assert "ghcr.io/loft-sh/kubernetes:v1.33.13" in tenant_images(tenant_spec("own-kai", kubernetes="1.33.13"))


def test_images_follow_the_values() -> None:
    values = {
        "controlPlane": {
            "coredns": {"enabled": False},
            "distro": {"k8s": {"image": {"registry": "localhost:5001"}}},
            "statefulSet": {"image": {"tag": "0.36.2"}},
        },
        "sync": {"toHost": {"pods": {"rewriteHosts": {"enabled": True}}}},
    }
    assert tenant_images(tenant_spec(values=values)) == (
        "ghcr.io/loft-sh/vcluster-oss:0.36.2",
        "localhost:5001/loft-sh/kubernetes:v1.34.4",
        "mirror.gcr.io/library/alpine:3.20",
    )
    prefixed = tenant_images(tenant_spec(values={"controlPlane": {"advanced": {"defaultImageRegistry": "mine"}}}))
    assert prefixed[0] == "mine/loft-sh/vcluster-oss:0.36.1"


def test_tenants_share_images() -> None:
    spec = lab_with(tenant_spec(), tenant_spec("default", "team-b"))
    assert len({image for tenant in spec.tenants for image in tenant_images(tenant)}) == 3


def test_tenant_steps_need_the_network_only() -> None:
    spec = lab_with(tenant_spec(), tenant_spec("default", "team-b"))
    steps = [VirtualCluster(spec, tenant) for tenant in spec.tenants]
    assert [step.id for step in steps] == ["tenant:team-a", "tenant:team-b"]
    assert {step.needs for step in steps} == {("network",)}
    assert "vCluster 0.36.1" in steps[0].effects()[0].what


def test_controllers_start_at_once_and_wait_for_no_lease() -> None:
    kubernetes = value_at(tenant_values(tenant_spec()), "controlPlane.distro.k8s")
    assert kubernetes["controllerManager"]["extraArgs"] == [
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--leader-elect=false",
    ]
    assert kubernetes["scheduler"]["extraArgs"] == ["--leader-elect=false"]


def test_lists_come_from_the_database_itself() -> None:
    """kine tells its progress late, and the API server would wait for it."""
    arguments = "controlPlane.backingStore.database.embedded.extraArgs"
    assert value_at(tenant_values(tenant_spec()), arguments) == ["--emulated-etcd-version=3.5.12"]
    given = with_value(arguments, ["--emulated-etcd-version=3.6.11"])
    assert value_at(tenant_values(tenant_spec(values=given)), arguments) == [
        "--emulated-etcd-version=3.5.12",
        "--emulated-etcd-version=3.6.11",
    ]


def test_several_control_planes_elect_a_leader_and_the_arguments_of_the_lab_file_come_last() -> None:
    several = {"controlPlane": {"statefulSet": {"highAvailability": {"replicas": 3}}}}
    given = {"distro": {"k8s": {"controllerManager": {"extraArgs": ["--kube-api-qps=20"]}}}}
    values = tenant_values(tenant_spec(values={"controlPlane": {**several["controlPlane"], **given}}))
    kubernetes = value_at(values, "controlPlane.distro.k8s")
    assert kubernetes["controllerManager"]["extraArgs"] == [
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--kube-api-qps=20",
    ]
    assert kubernetes["scheduler"]["extraArgs"] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("controlPlane.statefulSet.highAvailability.replicas", "two"),
        ("controlPlane.distro.k8s.scheduler.extraArgs", "--v=4"),
        ("controlPlane.distro.k8s.scheduler", 5),
    ],
)
def test_values_of_a_wrong_type_stay_for_the_charts_schema_to_name(key: str, value: Any) -> None:
    assert value_at(tenant_values(tenant_spec(values=with_value(key, value))), key) == value
