from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.errors import LabError, SpecError
from lab.tenants.vcluster.validation import validate_tenants
from tests.support.builders import chart_file
from tests.support.specs import EXISTING, lab_spec, lab_with, tenant_spec
from tests.support.tenant_validation import problems


@pytest.mark.parametrize("mode", ["host-kai", "default", "own-kai"])
def test_default_values_are_valid(chart: Path, mode: str) -> None:
    assert problems(chart, mode) == []


def test_misspelt_key_is_named_with_a_suggestion(chart: Path) -> None:
    values = {"sync": {"fromHost": {"runtimeClases": {"enabled": True}}}}
    assert problems(chart, values=values) == [
        "values.sync.fromHost.runtimeClases: unknown key; perhaps you meant 'runtimeClasses'?"
    ]


def test_wrong_type_is_named(chart: Path) -> None:
    values = {"sync": {"fromHost": {"nodes": "auto"}}, "telemetry": {"enabled": "no"}}
    assert problems(chart, values=values) == [
        'values.sync.fromHost.nodes: must be of type object, not "auto"',
        'values.telemetry.enabled: must be of type boolean, not "no"',
    ]


def test_podgroup_sync_of_the_vcluster_guide_is_explained(chart: Path) -> None:
    block = {"podgroups.scheduling.run.ai": {"enabled": True, "scope": "Namespaced"}}
    (line,) = problems(chart, values={"sync": {"fromHost": {"customResources": block}}})
    assert "customResources.podgroups.scheduling.run.ai: remove it" in line
    assert "vcluster-docs#886" in line
    (line,) = problems(chart, values={"sync": {"toHost": {"customResources": {"certs.x": {"enabled": True}}}}})
    assert line.endswith("customResources.certs.x: syncing custom resources needs vCluster Pro and a licence")


@pytest.mark.parametrize(
    "key", ["controlPlane.distro.k8s.scheduler.enabled", "controlPlane.advanced.virtualScheduler.enabled"]
)
def test_virtual_scheduler_needs_mode_default_and_synced_nodes(chart: Path, key: str) -> None:
    values: Any = True
    for word in reversed(key.split(".")):
        values = {word: values}
    assert problems(chart, values=values) == [
        f"values.{key}: with a scheduler inside, the host's KAI never sees the pods; use mode default"
    ]
    assert problems(chart, "default", values=values) == [
        f"values.{key}: a scheduler inside needs values.sync.fromHost.nodes.enabled: true"
    ]
    nodes = {"sync": {"fromHost": {"nodes": {"enabled": True}}}}
    assert problems(chart, "default", values={**values, **nodes}) == []


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"sleep": {"auto": {"afterInactivity": "1h"}}}, "sleep"),
        ({"experimental": {"denyProxyRequests": [{"name": "x"}]}}, "experimental.denyProxyRequests"),
        ({"sync": {"toHost": {"namespaces": {"enabled": True}}}}, "sync.toHost.namespaces.enabled"),
        ({"sync": {"toHost": {"pods": {"patches": [{"path": "x"}]}}}}, "sync.toHost.pods.patches"),
        ({"controlPlane": {"coredns": {"embedded": True}}}, "controlPlane.coredns.embedded"),
    ],
)
def test_pro_keys_are_refused_with_the_open_source_image(chart: Path, values: Any, key: str) -> None:
    assert problems(chart, values=values) == [
        f"values.{key}: needs vCluster Pro and a licence; the lab runs loft-sh/vcluster-oss"
    ]


def test_disabled_pro_keys_are_allowed(chart: Path) -> None:
    assert problems(chart, values={"sync": {"toHost": {"namespaces": {"enabled": False}}}, "sleep": {}}) == []


def test_another_image_is_a_warning_only(chart: Path) -> None:
    values = {"controlPlane": {"statefulSet": {"image": {"repository": "loft-sh/vcluster-pro"}}}, "sleep": {"a": 1}}
    warnings = validate_tenants(lab_with(tenant_spec(values=values)), chart)
    (warning,) = warnings
    assert warning.startswith("tenant team-a: values.controlPlane.statefulSet.image: not the open-source image")


def test_owner_references_with_kai_are_a_warning(chart: Path) -> None:
    (warning,) = validate_tenants(
        lab_with(tenant_spec(values={"experimental": {"syncSettings": {"setOwner": True}}})), chart
    )
    assert "setOwner" in warning


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            {"sync": {"toHost": {"priorityClasses": {"enabled": True}}}},
            (
                "values.sync.toHost.priorityClasses.enabled: cannot be on together with"
                " sync.fromHost.priorityClasses.enabled"
            ),
        ),
        (
            {"controlPlane": {"statefulSet": {"highAvailability": {"replicas": 3}}}},
            (
                "values.controlPlane.statefulSet.highAvailability.replicas: the embedded database serves"
                " one replica only"
            ),
        ),
        (
            {"policies": {"podSecurityStandard": "strict"}},
            "values.policies.podSecurityStandard: must be one of privileged, baseline, restricted",
        ),
        (
            {"sync": {"fromHost": {"configMaps": {"enabled": True}}}},
            "values.sync.fromHost.configMaps.mappings.byName: is missing; map each object to its target",
        ),
        (
            {"deploy": {"volumeSnapshotController": {"enabled": False}}},
            "values.deploy.volumeSnapshotController: removed in vCluster 0.36; the chart refuses it",
        ),
        (
            {"controlPlane": {"endpoint": "x:1"}},
            "values.controlPlane.endpoint: belongs to private nodes, which need vCluster Pro",
        ),
        (
            {"exportKubeConfig": {"server": "https://x"}},
            "values.exportKubeConfig.server: set by the lab, which makes the tenant reachable; remove it",
        ),
        (
            {"exportKubeConfig": {"secret": {"name": "a"}, "additionalSecrets": [{"name": "b"}]}},
            "values.exportKubeConfig.secret: cannot be set together with additionalSecrets",
        ),
    ],
)
def test_rules_that_vcluster_checks_only_at_startup(chart: Path, values: Any, line: str) -> None:
    assert problems(chart, values=values) == [line]


def test_versions_without_a_chart_or_support_are_refused(chart: Path) -> None:
    assert problems(chart, vcluster="0.36.2") == ["vcluster: the lab has the chart 0.36.1, not 0.36.2"]
    assert problems(chart, kubernetes="1.29.4") == ["kubernetes: 1.29.4, but vCluster 0.36.1 runs 1.30 to 1.36"]


def test_problems_of_all_tenants_are_reported_together(chart: Path) -> None:
    bad = tenant_spec(values={"unknown": 1})
    with pytest.raises(SpecError) as refusal:
        validate_tenants(lab_with(bad, tenant_spec("default", "team-b", values={"strange": 1})), chart)
    assert refusal.value.what == "2 problems with tenants"
    assert refusal.value.evidence == (
        "tenant team-a: values.unknown: unknown key",
        "tenant team-b: values.strange: unknown key",
    )


def test_tenants_on_an_existing_cluster_are_validated(chart: Path) -> None:
    tenants = [tenant_spec("default", values=values).model_dump() for values in ({}, {"slep": {}})]
    existing = {"cluster": EXISTING, "gpus": "none"}
    assert validate_tenants(lab_spec(tenants=tenants[:1], **existing), chart) == ()
    with pytest.raises(SpecError, match="slep: unknown key"):
        validate_tenants(lab_spec(tenants=tenants[1:], **existing), chart)


def test_chart_is_not_read_without_tenants(tmp_path: Path) -> None:
    assert validate_tenants(lab_spec(), tmp_path / "missing.tgz") == ()


def test_file_that_is_not_a_chart_is_named(tmp_path: Path) -> None:
    empty = chart_file(tmp_path / "other.tgz", "other", {"Chart.yaml": "version: 1\n"})
    with pytest.raises(LabError, match="is not a vCluster chart"):
        validate_tenants(lab_with(tenant_spec()), empty)
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(LabError, match="is unreadable"):
        validate_tenants(lab_with(tenant_spec()), tmp_path / "text")
