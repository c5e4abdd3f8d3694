from __future__ import annotations

from typing import Any

import pytest
from test_kai_values import lab

from lab.errors import SpecError
from lab.parts import tenants
from lab.parts.releases import value_at
from lab.parts.tenants.access import Port
from lab.parts.tenants.values import release_values, tenant_images, tenant_values
from lab.spec import LabSpec, TenantSpec

PORT = Port(41000, 30440)


def one(mode: str = "host-kai", name: str = "team-a", **more: Any) -> TenantSpec:
    return TenantSpec.model_validate({"name": name, "mode": mode, **more})


def with_tenants(*tenants: TenantSpec) -> LabSpec:
    return lab(tenants=[tenant.model_dump() for tenant in tenants])


def test_host_kai() -> None:
    values = tenant_values(one())
    assert value_at(values, "experimental.syncSettings.setOwner") is False
    assert value_at(values, "sync.fromHost.priorityClasses.enabled") is True
    assert value_at(values, "sync.fromHost.runtimeClasses.enabled") is True
    assert value_at(values, "sync.fromHost.nodes") is None


def test_default() -> None:
    values = tenant_values(one("default"))
    assert value_at(values, "experimental") is None
    assert value_at(values, "sync.fromHost") == {"runtimeClasses": {"enabled": True}}


@pytest.mark.parametrize("mode", ["host-kai", "default"])
def test_both_are_open_source_light_and_silent(mode: str) -> None:
    values = tenant_values(one(mode, kubernetes="1.33.4"))
    assert value_at(values, "controlPlane.statefulSet.image.repository") == "loft-sh/vcluster-oss"
    assert value_at(values, "controlPlane.statefulSet.persistence.volumeClaim.enabled") is False
    assert value_at(values, "sync.toHost.pods.rewriteHosts.enabled") is False
    assert value_at(values, "telemetry.enabled") is False
    assert value_at(values, "controlPlane.distro.k8s.version") == "v1.33.4"


def test_access_comes_last() -> None:
    values = release_values(with_tenants(one()), one(), PORT)
    assert value_at(values, "controlPlane.service") == {"spec": {"type": "NodePort"}, "httpsNodePort": 30440}
    assert values["exportKubeConfig"] == {
        "server": "https://127.0.0.1:41000",
        "context": "kailab-demo-team-a",
    }


def test_images() -> None:
    assert tenant_images(one()) == (
        "ghcr.io/loft-sh/vcluster-oss:0.36.1",
        "ghcr.io/loft-sh/kubernetes:v1.34.4",
        "registry.k8s.io/coredns/coredns:v1.12.4",
    )


def test_images_follow_the_values() -> None:
    values = {
        "controlPlane": {
            "coredns": {"enabled": False},
            "distro": {"k8s": {"image": {"registry": "localhost:5001"}}},
            "statefulSet": {"image": {"tag": "0.36.2"}},
        },
        "sync": {"toHost": {"pods": {"rewriteHosts": {"enabled": True}}}},
    }
    assert tenant_images(one(values=values)) == (
        "ghcr.io/loft-sh/vcluster-oss:0.36.2",
        "localhost:5001/loft-sh/kubernetes:v1.34.4",
        "mirror.gcr.io/library/alpine:3.20",
    )
    prefixed = tenant_images(one(values={"controlPlane": {"advanced": {"defaultImageRegistry": "mine"}}}))
    assert prefixed[0] == "mine/loft-sh/vcluster-oss:0.36.1"


def test_a_lab_needs_each_image_once() -> None:
    spec = with_tenants(one(), one("default", "team-b"))
    assert len(tenants.images(spec)) == 3
    assert tenants.charts(spec) == ("vcluster",)
    assert tenants.charts(lab()) == ()


def test_steps_come_up_beside_kai() -> None:
    steps = tenants.tenant_steps(with_tenants(one(), one("default", "team-b")))
    assert [step.id for step in steps] == ["tenant:team-a", "tenant:team-b"]
    assert {step.needs for step in steps} == {("network",)}
    assert "vCluster 0.36.1" in steps[0].effects()[0].what


def test_own_kai_is_a_later_release() -> None:
    spec = with_tenants(one("own-kai", kai_version="0.16.8"))
    with pytest.raises(SpecError, match="own-kai tenants are not in this release; use host-kai or default"):
        tenants.tenant_steps(spec)
