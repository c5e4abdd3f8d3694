"""User values that contradict the tenant's mode, nodes or quota; all modes against vCluster's chart."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.config import TenantSpec
from lab.errors import SpecError
from lab.steps.helm_release import merged, with_value
from lab.tenants.vcluster.chart import SHIPPED, VClusterChart, read_vcluster_chart, shipped_chart
from lab.tenants.vcluster.quota import CHART_QUOTA, hard_limits
from lab.tenants.vcluster.validation import problems_of, validate_tenants
from tests.support.builders import chart_file
from tests.support.specs import lab_with, tenant_spec
from tests.support.tenant_validation import problems

OWN = "kailab.dev/tenant=team-a:NoSchedule"
BLOCK = {"podgroups.scheduling.run.ai": {"enabled": True, "scope": "Namespaced"}}
QUOTA = {"gpus": 2, "cpu": "8", "memory": "16Gi", "pods": 30}


@pytest.fixture(scope="session")
def vcluster(tmp_path_factory: pytest.TempPathFactory) -> VClusterChart:
    """vCluster's chart from the Go module that the lab builds vCluster from."""
    modules = os.environ.get("GOMODCACHE") or Path(os.environ.get("GOPATH") or Path.home() / "go") / "pkg/mod"
    folder = Path(modules) / "github.com/loft-sh/vcluster@v0.36.1/chart"
    if not folder.is_dir():
        pytest.skip("the Go module cache has no vCluster 0.36.1: a lab that builds its image puts it there")
    files = {name: (folder / name).read_text() for name in ("values.schema.json", "values.yaml")}
    # the version in git is 0.0.1; releases have the real one
    metadata = {**yaml.safe_load((folder / "Chart.yaml").read_text()), "version": "0.36.1"}
    path = tmp_path_factory.mktemp("chart") / "vcluster.tgz"
    return read_vcluster_chart(chart_file(path, "vcluster", {**files, "Chart.yaml": yaml.safe_dump(metadata)}))


@pytest.mark.parametrize("more", [{}, {"nodes": 1}, {"quota": QUOTA}, {"nodes": 1, "quota": QUOTA}])
@pytest.mark.parametrize("mode", ["host-kai", "default", "own-kai"])
def test_all_modes_fit_the_real_chart(vcluster: VClusterChart, mode: str, more: dict[str, Any]) -> None:
    tenant = tenant_spec(mode, **more)
    assert list(problems_of(lab_with(tenant), tenant, vcluster)) == []


def test_real_chart_has_the_default_limits_that_the_lab_removes(vcluster: VClusterChart) -> None:
    assert set(vcluster.defaults["policies"]["resourceQuota"]["quota"]) == set(CHART_QUOTA)
    assert set(vcluster.defaults["policies"]["limitRange"]["defaultRequest"]) == {"cpu", "memory", "ephemeral-storage"}


def test_shipped_chart_is_the_real_one(vcluster: VClusterChart) -> None:
    assert vcluster.as_text() == SHIPPED.read_text(), "run python -m scripts.vcluster_chart with the new chart"
    assert shipped_chart().defaults == vcluster.defaults


def test_shipped_chart_is_of_the_default_version() -> None:
    assert shipped_chart().version == TenantSpec(name="a").vcluster


def test_misspelt_key_is_refused_without_a_chart_at_hand() -> None:
    tenant = tenant_spec("own-kai", values={"sync": {"fromHost": {"nodes": {"selektor": {}}}}})
    with pytest.raises(SpecError, match="selektor: unknown key; perhaps you meant 'selector'"):
        validate_tenants(lab_with(tenant), None)
    other = tenant.model_copy(update={"vcluster": "0.36.0"})
    assert validate_tenants(lab_with(other), None) == ()  # its keys are not known


def test_real_chart_refuses_a_misspelt_key(vcluster: VClusterChart) -> None:
    tenant = tenant_spec("own-kai", values={"sync": {"fromHost": {"nodes": {"selektor": {}}}}})
    (line,) = problems_of(lab_with(tenant), tenant, vcluster)
    assert line == "values.sync.fromHost.nodes.selektor: unknown key; perhaps you meant 'selector'?"


def test_quota_too_small_for_the_real_control_plane_is_refused(vcluster: VClusterChart) -> None:
    tenant = tenant_spec("own-kai", quota={"cpu": "100m", "memory": "64Mi", "pods": 4})
    assert list(problems_of(lab_with(tenant), tenant, vcluster)) == [
        "quota.cpu: 100m is less than vCluster and CoreDNS request (200m + 20m)",
        "quota.memory: 64Mi is less than vCluster and CoreDNS request (256Mi + 64Mi)",
        "quota.pods: 4 is less than the 9 pods of vCluster, CoreDNS, KAI inside",
    ]


@pytest.mark.parametrize("mode", ["own-kai", "host-kai"])
def test_podgroup_sync_of_the_vcluster_guide_is_refused(chart: Path, mode: str) -> None:
    (line,) = problems(chart, mode, values={"sync": {"fromHost": {"customResources": BLOCK}}})
    assert "customResources.podgroups.scheduling.run.ai: remove it" in line


def test_own_kai_needs_the_virtual_scheduler(chart: Path) -> None:
    off = with_value("controlPlane.advanced.virtualScheduler.enabled", False)
    (line,) = problems(chart, "own-kai", values=off)
    assert line.startswith("values.controlPlane.advanced.virtualScheduler.enabled: must stay true in mode own-kai")
    newer = with_value("controlPlane.distro.k8s.scheduler.enabled", True)
    assert problems(chart, "own-kai", values=merged(off, newer)) == []
    bare = merged(off, with_value("sync.fromHost.nodes.enabled", False))
    assert any("the KAI inside needs the real nodes" in line for line in problems(chart, "own-kai", values=bare))


def test_own_kai_needs_synced_nodes(chart: Path) -> None:
    (line,) = problems(chart, "own-kai", values=with_value("sync.fromHost.nodes.enabled", False))
    assert line.endswith(": a scheduler inside needs values.sync.fromHost.nodes.enabled: true")


def test_own_kai_refuses_priority_classes_of_the_host(chart: Path) -> None:
    (line,) = problems(chart, "own-kai", values=with_value("sync.fromHost.priorityClasses.enabled", True))
    assert line.startswith("values.sync.fromHost.priorityClasses: vCluster then deletes the PriorityClasses")
    assert problems(chart, values=with_value("sync.fromHost.priorityClasses.enabled", True)) == []


@pytest.mark.parametrize("mode", ["own-kai", "default"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            with_value("sync.fromHost.nodes.selector.labels", {"kailab.dev/tenant": "team-b"}),
            "values.sync.fromHost.nodes.selector.labels: set by the lab, kailab.dev/tenant: team-a",
        ),
        (
            with_value("sync.fromHost.nodes.selector.labels", {"gpu": "yes"}),
            "values.sync.fromHost.nodes.selector.labels: set by the lab",
        ),
        (with_value("sync.fromHost.nodes.selector.all", True), "values.sync.fromHost.nodes.selector.all: shows"),
        (
            with_value("sync.toHost.pods.enforceTolerations", ["mine"]),
            f"values.sync.toHost.pods.enforceTolerations: Helm replaces lists, so yours must have {OWN} too",
        ),
    ],
)
def test_values_that_weaken_dedicated_nodes_are_refused(chart: Path, mode: str, values: Any, message: str) -> None:
    (line,) = problems(chart, mode, nodes=1, values=values)
    assert line.startswith(message)


def test_additional_tolerations_are_allowed(chart: Path) -> None:
    assert problems(chart, "own-kai", values=with_value("sync.toHost.pods.enforceTolerations", ["mine", OWN])) == []
    assert problems(chart, "default", values=with_value("sync.toHost.pods.enforceTolerations", ["mine"])) == []


def test_dedicated_nodes_need_synced_nodes(chart: Path) -> None:
    off = with_value("sync.fromHost.nodes.enabled", False)
    assert problems(chart, "default", nodes=1, values=off) == [
        "values.sync.fromHost.nodes.enabled: must stay true: the tenant has dedicated nodes"
    ]


def test_quota_in_the_lab_file_and_in_values_is_refused(chart: Path) -> None:
    quota = with_value("policies.resourceQuota.quota", {"pods": 3})
    assert problems(chart, quota={"gpus": 1}, values=quota) == [
        "values.policies.resourceQuota: the lab sets it from tenants[].quota; remove one of the two"
    ]
    assert problems(chart, values=quota) == []


def test_cpu_quota_needs_a_default_request(chart: Path) -> None:
    off = with_value("policies.limitRange.enabled", False)
    (line,) = problems(chart, quota={"cpu": "8", "gpus": 1}, values=off)
    assert line.startswith("values.policies.limitRange: must give containers a default request of cpu:")
    assert problems(chart, quota={"gpus": 1}, values=off) == []
    other = with_value("policies.limitRange.defaultRequest", {"cpu": "10m"})
    assert problems(chart, quota={"cpu": "8"}, values=other) == []


def test_chart_with_unknown_limits_is_refused(chart: Path) -> None:
    found = read_vcluster_chart(chart)
    more = with_value("policies.resourceQuota.quota", {"count/gateways": 1})
    newer = VClusterChart(found.version, found.schema, merged(found.defaults, more))
    tenant = tenant_spec(quota={"gpus": 1})
    (line,) = problems_of(lab_with(tenant), tenant, newer)
    assert line.startswith("quota: this chart would limit count/gateways too")


def warnings(chart: Path, tenant: TenantSpec) -> list[str]:
    return [line.partition(": ")[2] for line in validate_tenants(lab_with(tenant), chart)]


@pytest.mark.parametrize(
    ("tenant", "message"),
    [
        (
            tenant_spec("own-kai", values=with_value("experimental.syncSettings.setOwner", False)),
            "leaves synced objects",
        ),
        (tenant_spec("own-kai", values=with_value("sync.toHost.priorityClasses.enabled", True)), "outlive the tenant"),
        (tenant_spec(quota={"gpus": 1}), "quota.gpus: counts whole GPUs only"),
    ],
)
def test_questionable_values_cause_a_warning(chart: Path, tenant: TenantSpec, message: str) -> None:
    (line,) = warnings(chart, tenant)
    assert message in line


@pytest.mark.parametrize("mode", ["own-kai", "default"])
def test_valid_tenants_cause_no_warnings(chart: Path, mode: str) -> None:
    assert warnings(chart, tenant_spec(mode, quota={"gpus": 1})) == []
    assert hard_limits(tenant_spec(mode).quota) == {}
