"""Values of the user's own that contradict the tenant's mode, nodes or quota; all modes against vCluster's chart."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.config import TenantSpec
from lab.steps.helm_release import merged, with_value
from lab.tenants.vcluster.quota import CHART_QUOTA, hard_limits
from lab.tenants.vcluster.validation import VClusterChart, problems_of, read_vcluster_chart, validate_tenants
from tests.support.builders import chart_file
from tests.support.specs import lab_with, tenant_spec
from tests.support.tenant_validation import problems

OWN = "kailab.dev/tenant=team-a:NoSchedule"
BLOCK = {"podgroups.scheduling.run.ai": {"enabled": True, "scope": "Namespaced"}}
QUOTA = {"gpus": 2, "cpu": "8", "memory": "16Gi", "pods": 30}


@pytest.fixture(scope="session")
def vcluster(tmp_path_factory: pytest.TempPathFactory) -> VClusterChart:
    """vCluster's own chart, from the Go module that the lab builds vCluster of."""
    modules = os.environ.get("GOMODCACHE") or Path(os.environ.get("GOPATH") or Path.home() / "go") / "pkg/mod"
    folder = Path(modules) / "github.com/loft-sh/vcluster@v0.36.1/chart"
    if not folder.is_dir():
        pytest.skip("the Go module cache has no vCluster 0.36.1: a lab that builds its image puts it there")
    files = {name: (folder / name).read_text() for name in ("values.schema.json", "values.yaml")}
    # git has 0.0.1 there; the release carries its own version
    about = {**yaml.safe_load((folder / "Chart.yaml").read_text()), "version": "0.36.1"}
    path = tmp_path_factory.mktemp("chart") / "vcluster.tgz"
    return read_vcluster_chart(chart_file(path, "vcluster", {**files, "Chart.yaml": yaml.safe_dump(about)}))


@pytest.mark.parametrize("more", [{}, {"nodes": 1}, {"quota": QUOTA}, {"nodes": 1, "quota": QUOTA}])
@pytest.mark.parametrize("mode", ["host-kai", "default", "own-kai"])
def test_all_modes_fit_the_real_chart(vcluster: VClusterChart, mode: str, more: dict[str, Any]) -> None:
    tenant = tenant_spec(mode, **more)
    assert list(problems_of(lab_with(tenant), tenant, vcluster)) == []


def test_the_real_chart_would_limit_what_the_lab_takes_out(vcluster: VClusterChart) -> None:
    assert set(vcluster.defaults["policies"]["resourceQuota"]["quota"]) == set(CHART_QUOTA)
    assert set(vcluster.defaults["policies"]["limitRange"]["defaultRequest"]) == {"cpu", "memory", "ephemeral-storage"}


def test_the_real_chart_refuses_a_misspelt_key(vcluster: VClusterChart) -> None:
    tenant = tenant_spec("own-kai", values={"sync": {"fromHost": {"nodes": {"selektor": {}}}}})
    (line,) = problems_of(lab_with(tenant), tenant, vcluster)
    assert line == "values.sync.fromHost.nodes.selektor: unknown key; perhaps you meant 'selector'?"


def test_a_quota_too_small_for_the_real_control_plane(vcluster: VClusterChart) -> None:
    tenant = tenant_spec("own-kai", quota={"cpu": "100m", "memory": "64Mi", "pods": 4})
    assert list(problems_of(lab_with(tenant), tenant, vcluster)) == [
        "quota.cpu: 100m is less than vCluster and CoreDNS request (200m + 20m)",
        "quota.memory: 64Mi is less than vCluster and CoreDNS request (256Mi + 64Mi)",
        "quota.pods: 4 is less than the 9 pods of vCluster, CoreDNS, KAI inside",
    ]


@pytest.mark.parametrize("mode", ["own-kai", "host-kai"])
def test_the_guides_podgroup_block_is_refused(chart: Path, mode: str) -> None:
    (line,) = problems(chart, mode, values={"sync": {"fromHost": {"customResources": BLOCK}}})
    assert "customResources.podgroups.scheduling.run.ai: remove it" in line


def test_own_kai_without_a_scheduler_inside(chart: Path) -> None:
    off = with_value("controlPlane.advanced.virtualScheduler.enabled", False)
    (line,) = problems(chart, "own-kai", values=off)
    assert line.startswith("values.controlPlane.advanced.virtualScheduler.enabled: must stay true in mode own-kai")
    newer = with_value("controlPlane.distro.k8s.scheduler.enabled", True)
    assert problems(chart, "own-kai", values=merged(off, newer)) == []
    blind = merged(off, with_value("sync.fromHost.nodes.enabled", False))
    assert any("the KAI inside needs the real nodes" in line for line in problems(chart, "own-kai", values=blind))


def test_own_kai_without_nodes(chart: Path) -> None:
    (line,) = problems(chart, "own-kai", values=with_value("sync.fromHost.nodes.enabled", False))
    assert line.endswith(": a scheduler inside needs values.sync.fromHost.nodes.enabled: true")


def test_priority_classes_from_the_host_take_those_of_kai_inside(chart: Path) -> None:
    (line,) = problems(chart, "own-kai", values=with_value("sync.fromHost.priorityClasses.enabled", True))
    assert line.startswith("values.sync.fromHost.priorityClasses: vCluster then deletes the PriorityClasses")
    assert problems(chart, values=with_value("sync.fromHost.priorityClasses.enabled", True)) == []


@pytest.mark.parametrize("mode", ["own-kai", "default"])
@pytest.mark.parametrize(
    ("values", "said"),
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
def test_nodes_of_its_own_stay_its_own(chart: Path, mode: str, values: Any, said: str) -> None:
    (line,) = problems(chart, mode, nodes=1, values=values)
    assert line.startswith(said)


def test_tolerations_beside_the_labs(chart: Path) -> None:
    assert problems(chart, "own-kai", values=with_value("sync.toHost.pods.enforceTolerations", ["mine", OWN])) == []
    assert problems(chart, "default", values=with_value("sync.toHost.pods.enforceTolerations", ["mine"])) == []


def test_nodes_not_synced_with_nodes_of_its_own(chart: Path) -> None:
    off = with_value("sync.fromHost.nodes.enabled", False)
    assert problems(chart, "default", nodes=1, values=off) == [
        "values.sync.fromHost.nodes.enabled: must stay true: the tenant has dedicated nodes"
    ]


def test_a_quota_is_written_in_one_place(chart: Path) -> None:
    mine = with_value("policies.resourceQuota.quota", {"pods": 3})
    assert problems(chart, quota={"gpus": 1}, values=mine) == [
        "values.policies.resourceQuota: the lab sets it from tenants[].quota; remove one of the two"
    ]
    assert problems(chart, values=mine) == []


def test_a_quota_of_cpu_needs_a_default_request(chart: Path) -> None:
    off = with_value("policies.limitRange.enabled", False)
    (line,) = problems(chart, quota={"cpu": "8", "gpus": 1}, values=off)
    assert line.startswith("values.policies.limitRange: must give containers a default request of cpu:")
    assert problems(chart, quota={"gpus": 1}, values=off) == []
    other = with_value("policies.limitRange.defaultRequest", {"cpu": "10m"})
    assert problems(chart, quota={"cpu": "8"}, values=other) == []


def test_a_chart_that_limits_more_than_is_known(chart: Path) -> None:
    found = read_vcluster_chart(chart)
    more = with_value("policies.resourceQuota.quota", {"count/gateways": 1})
    newer = VClusterChart(found.version, found.schema, merged(found.defaults, more))
    tenant = tenant_spec(quota={"gpus": 1})
    (line,) = problems_of(lab_with(tenant), tenant, newer)
    assert line.startswith("quota: this chart would limit count/gateways too")


def doubts(chart: Path, tenant: TenantSpec) -> list[str]:
    return [line.partition(": ")[2] for line in validate_tenants(lab_with(tenant), chart)]


@pytest.mark.parametrize(
    ("tenant", "said"),
    [
        (
            tenant_spec("own-kai", values=with_value("experimental.syncSettings.setOwner", False)),
            "leaves synced objects",
        ),
        (tenant_spec("own-kai", values=with_value("sync.toHost.priorityClasses.enabled", True)), "outlive the tenant"),
        (tenant_spec(quota={"gpus": 1}), "quota.gpus: counts whole GPUs only"),
    ],
)
def test_what_is_probably_not_meant(chart: Path, tenant: TenantSpec, said: str) -> None:
    (line,) = doubts(chart, tenant)
    assert said in line


@pytest.mark.parametrize("mode", ["own-kai", "default"])
def test_nothing_is_doubted_without_reason(chart: Path, mode: str) -> None:
    assert doubts(chart, tenant_spec(mode, quota={"gpus": 1})) == []
    assert hard_limits(tenant_spec(mode).quota) == {}
