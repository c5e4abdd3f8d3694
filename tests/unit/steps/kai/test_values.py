"""Values, images and deployments of KAI for each line and lab file."""

from __future__ import annotations

import pytest

from lab.kai import line_of, lines
from lab.steps import kai
from lab.steps.helm_release import value_at
from lab.steps.kai.values import (
    kai_deployments,
    kai_images,
    kai_values,
    makes_default_queues,
    own_hooks,
    release_values,
)
from lab.tenants.vcluster.inner_lab import inner_spec
from tests.support.specs import EXISTING, lab_spec, tenant_spec


def test_values_of_the_default_lab() -> None:
    values = kai_values(lab_spec())
    assert values["global"] == {
        "registry": "ghcr.io/kai-scheduler/kai-scheduler",
        "tag": "v0.16.8",
        "gpuSharing": True,
        "imagePullPolicy": "IfNotPresent",
        "clusterAutoscaling": False,
        "leaderElection": False,
    }
    assert values["binder"]["runtimeClassName"] == "nvidia"
    assert values["admission"]["gpuFractionRuntimeClassName"] == "nvidia"
    assert values["queuecontroller"]["resources"]["limits"] == {"cpu": "1"}


def test_labs_without_gpus_have_no_runtime_class() -> None:
    values = kai_values(lab_spec(gpus="none"))
    assert value_at(values, "binder.runtimeClassName") is None
    # the operator's default is nvidia, which only an empty string disables
    assert values["admission"]["gpuFractionRuntimeClassName"] == ""


@pytest.mark.parametrize(
    ("version", "reservation", "workload"),
    [
        ("0.7.11", None, None),
        ("0.9.3", None, None),
        ("0.9.8", "global.resourceReservation.runtimeClassName", "admission.gpuPodRuntimeClassName"),
        ("0.12.23", "binder.runtimeClassName", "admission.gpuPodRuntimeClassName"),
        ("0.17.0", "binder.runtimeClassName", "admission.gpuFractionRuntimeClassName"),
    ],
)
def test_runtime_class_key_of_each_line(version: str, reservation: str | None, workload: str | None) -> None:
    values = kai_values(lab_spec(version))
    for path in (reservation, workload):
        if path is not None:
            assert value_at(values, path) == "nvidia"
    if reservation is None:
        assert "nvidia" not in str(values).replace("ghcr.io/nvidia", "")


def test_workload_class_is_not_set_where_it_cannot_be_cleared() -> None:
    assert value_at(kai_values(lab_spec("0.12.23", gpus="none")), "admission.gpuPodRuntimeClassName") is None


def test_values_of_the_lab_file_take_precedence() -> None:
    overrides = {"global": {"gpuSharing": False, "registry": "localhost:5001/kai"}, "binder": {"runtimeClassName": "x"}}
    values = kai_values(lab_spec(values=overrides))
    assert values["global"]["gpuSharing"] is False
    assert values["binder"] == {"runtimeClassName": "x", "resources": {"limits": {"cpu": "1"}}}
    assert all(image.startswith("localhost:5001/kai/") for image in kai_images(lab_spec(values=overrides)))


def test_images_are_those_of_the_pods() -> None:
    names = {image.rpartition("/")[2] for image in kai_images(lab_spec())}
    assert names == {
        f"{name}:v0.16.8"
        for name in (
            "admission",
            "binder",
            "operator",
            "podgroupcontroller",
            "podgrouper",
            "queuecontroller",
            "resourcereservation",
            "scheduler",
        )
    }


def test_images_include_hook_jobs_that_helm_runs() -> None:
    assert not own_hooks(lab_spec(cluster=EXISTING))
    assert any("/crd-upgrader:" in image for image in kai_images(lab_spec(cluster=EXISTING)))
    assert any("/webhookmanager:" in image for image in kai_images(lab_spec("0.7.11")))


def test_autoscaling_adds_images_and_a_deployment() -> None:
    spec = lab_spec(values={"global": {"clusterAutoscaling": True}})
    assert {image.rpartition("/")[2] for image in kai_images(spec)} >= {
        "nodescaleadjuster:v0.16.8",
        "scalingpod:v0.16.8",
    }
    assert "node-scale-adjuster" in kai_deployments(spec)


def test_deployments_depend_on_version_and_values() -> None:
    assert set(kai_deployments(lab_spec())) == {
        "kai-operator",
        "kai-scheduler-default",
        "admission",
        "binder",
        "pod-grouper",
        "podgroup-controller",
        "queue-controller",
    }
    assert "kai-scheduler-default" not in kai_deployments(lab_spec(values={"defaultShard": {"enabled": False}}))
    assert "binder" not in kai_deployments(lab_spec(values={"binder": {"enabled": False}}))
    assert "scheduler" in kai_deployments(lab_spec("0.7.11"))


def test_release_has_no_default_queues_where_the_lab_creates_them() -> None:
    assert value_at(release_values(lab_spec()), "defaultQueue.createDefaultQueue") is False
    # its hook Jobs run, but queues of another version may exist
    assert value_at(release_values(lab_spec("0.12.15")), "defaultQueue.createDefaultQueue") is False
    assert value_at(release_values(lab_spec("0.9.9")), "defaultQueue") is None
    assert value_at(release_values(lab_spec(cluster=EXISTING)), "defaultQueue") is None


def test_default_queues_can_be_disabled() -> None:
    assert makes_default_queues(lab_spec())
    assert not makes_default_queues(lab_spec(values={"defaultQueue": {"createDefaultQueue": False}}))
    assert not makes_default_queues(lab_spec("0.9.8"))


def test_every_line_has_values_images_and_deployments() -> None:
    for version, line in lines().items():
        spec = lab_spec(version)
        assert value_at(kai_values(spec), "global.tag") == (f"v{version}" if line.has_shards else None)
        assert all(image.startswith(f"{line.registry}/") for image in kai_images(spec))
        assert all(image.endswith(f":v{version}") for image in kai_images(spec))
        assert set(kai_deployments(spec)) == set(line.deployments)
        assert line.scheduler_app in kai_deployments(spec)


def test_values_unknown_to_the_version_are_ignored() -> None:
    overrides = {"global": {"tag": "v1", "fips": True}, "binder": {"enabled": False}}
    spec = lab_spec("0.9.8", values=overrides)
    assert all(image.endswith(":v0.9.8") for image in kai_images(spec))
    assert "binder" in kai_deployments(spec)
    assert "kai-operator" in kai_deployments(lab_spec(values={"operator": {"enabled": False}}))
    assert all(image.endswith(":v1-fips") for image in kai_images(lab_spec(values=overrides)))


def test_unknown_version_is_installed_by_the_hook_jobs_of_the_chart() -> None:
    spec = lab_spec("0.16.99")
    assert not own_hooks(spec)
    assert value_at(release_values(spec), "defaultQueue") is None
    images = kai_images(spec)
    assert "ghcr.io/kai-scheduler/kai-scheduler/crd-upgrader:v0.16.99" in images
    assert set(kai_deployments(spec)) == set(line_of("0.16.8").deployments)


def test_kai_step_exists_only_with_scheduler_kai() -> None:
    assert [step.id for step in kai.kai_steps(lab_spec(scheduler="kai"))] == ["kai"]
    assert kai.kai_steps(lab_spec(scheduler="default", queues=[])) == []


def test_kai_starts_beside_the_preparation_of_gpus() -> None:
    """It reads the nodes' GPUs in each of its cycles."""
    assert kai.Kai(lab_spec()).needs == ("network",)


def test_existing_clusters_pull_from_mirrors_with_secrets() -> None:
    supply = {"mirrors": {"ghcr.io": "mirror.example/x"}, "pullSecrets": ["pull"]}
    spec = lab_spec(cluster=EXISTING, gpus="none", supply=supply)
    values = kai_values(spec)["global"]
    assert values["registry"] == "mirror.example/x/kai-scheduler/kai-scheduler"
    assert values["imagePullSecrets"] == [{"name": "pull"}]
    inside = kai_values(inner_spec(spec, tenant_spec("own-kai", nodes=("one",))))["global"]
    assert inside["registry"] == values["registry"]
    assert "imagePullSecrets" not in inside
    nodes_of_the_lab = lab_spec(supply={"mirrors": supply["mirrors"]})
    assert kai_values(nodes_of_the_lab)["global"]["registry"] == "ghcr.io/kai-scheduler/kai-scheduler"


@pytest.mark.parametrize(
    ("gpu", "reservation", "workload"),
    [
        ({"mode": "simulated", "nodes": ["one"], "image": "watch:1"}, None, ""),
        ({"mode": "present", "runtimeClass": "nvidia-cdi"}, "nvidia-cdi", "nvidia-cdi"),
    ],
)
def test_kai_of_a_tenant_has_the_runtime_class_of_the_existing_cluster(
    gpu: dict[str, object], reservation: str | None, workload: str
) -> None:
    """Not the one of a lab's own nodes: without that class the tenant would refuse its pods."""
    spec, line = lab_spec(cluster=EXISTING, gpu=gpu), line_of("0.16.8")
    for of in (spec, inner_spec(spec, tenant_spec("own-kai", nodes=("one",)))):
        values = kai_values(of)
        assert value_at(values, line.helm.reservation_class) == reservation
        assert value_at(values, line.helm.workload_class) == workload
