"""Step kai: install, observe, verify and undo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.engine.step import State
from lab.errors import StepFailed, WaitTimeout
from lab.objects.fields import labels_of
from lab.objects.isolation_labels import HOST_KAI, HOST_KAI_LABEL
from lab.steps.kai.binder_placeholders import placeholder_pods
from lab.steps.kai.chart import config_documents
from lab.steps.kai.step import NAMESPACE, RELEASE, Kai
from lab.steps.kai.values import release_values
from tests.support.builders import ready_deployment, release_secret, running_pod
from tests.support.fakes import FakeRunner
from tests.support.kai_install import DENIED, POLICIES, RENDERED, come_up, install, kai_world
from tests.support.lab_world import LabWorld
from tests.support.specs import EXISTING, lab_spec


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path) -> LabWorld:
    return kai_world(runner, tmp_path)


def test_install_applies_crds_queues_and_config_before_the_release(world: LabWorld) -> None:
    world.helm("template", out=RENDERED)
    upgrade = world.helm("upgrade")
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    assert world.log == [
        "apply Namespace kai-scheduler",
        "helm template kai-scheduler",
        "apply CustomResourceDefinition configs.kai.scheduler",
        "apply CustomResourceDefinition queues.scheduling.run.ai",
        "apply Queue default-parent-queue",
        "apply Queue default-queue",
        "apply Config kai-config",
        "helm upgrade --install",
    ]
    assert {"--no-hooks", "--skip-crds"} <= set(upgrade.calls[0].argv)
    assert json.loads(upgrade.calls[0].stdin) == release_values(world.spec)
    assert world.api.objects["Namespace", "", NAMESPACE]["metadata"]["labels"] == {"kailab": "demo"}
    assert world.api.objects["Config", "", "kai-config"]["metadata"]["labels"] == {"kailab": "demo"}


def test_labels_for_own_kai_tenants_are_removed_once_kai_serves_all_namespaces(world: LabWorld) -> None:
    mine = {"kailab": "demo", **HOST_KAI}
    for name, labels in (("default", HOST_KAI), ("vcluster-team", mine), ("theirs", HOST_KAI)):
        world.api.put("Namespace", name, metadata={"labels": dict(labels)})
    world.helm("template", out=RENDERED)
    world.helm("upgrade")
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    assert [
        space["metadata"]["name"]
        for space in world.api.of_kind("Namespace")
        if HOST_KAI_LABEL in labels_of(space["metadata"])
    ] == ["theirs"]
    patched = world.log[world.log.index("helm upgrade --install") + 1 :]
    assert [line.split()[2] for line in patched if line.startswith("patch Namespace")] == ["default", "vcluster-team"]


def test_existing_default_queues_are_kept(world: LabWorld) -> None:
    world.api.put("Queue", "default-queue")
    world.helm("template", out=RENDERED)
    world.helm("upgrade")
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    assert "apply Queue default-queue" not in world.log
    assert "apply Queue default-parent-queue" in world.log


def test_default_queues_can_be_disabled(runner: FakeRunner, tmp_path: Path) -> None:
    world = kai_world(runner, tmp_path, values={"defaultQueue": {"createDefaultQueue": False}})
    template = world.helm("template", out=RENDERED.partition("---")[0])
    world.helm("upgrade")
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    assert "templates/default-queue.yaml" not in template.calls[0].argv


@pytest.mark.parametrize(
    ("spec", "validates"),
    [({}, False), ({"values": {"global": {"replicaCount": 2}}}, True), ({"version": "0.16.999"}, True)],
)
def test_helm_validates_what_is_not_known(
    runner: FakeRunner, tmp_path: Path, spec: dict[str, object], validates: bool
) -> None:
    world = kai_world(runner, tmp_path, **spec)
    world.helm("template", out=RENDERED)
    upgrade = world.helm("upgrade")
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    assert ("--disable-openapi-validation" not in upgrade.calls[0].argv) == validates


def test_old_lines_run_the_hooks_of_the_chart_after_deleting_a_stale_job(runner: FakeRunner, tmp_path: Path) -> None:
    world = kai_world(runner, tmp_path, version="0.9.6")
    upgrade = world.helm("upgrade")
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    assert world.log == [
        "apply Namespace kai-scheduler",
        "delete Job crd-upgrader",
        f"apply CustomResourceDefinition {POLICIES}",
        "helm upgrade --install",
    ]
    assert not {"--no-hooks", "--skip-crds"} & set(upgrade.calls[0].argv)


@pytest.mark.parametrize("status", ["pending-install", "failed"])
def test_interrupted_first_install_is_restarted(world: LabWorld, status: str) -> None:
    world.api.add(release_secret(RELEASE, NAMESPACE, {}, version="v0.16.8", status=status))
    world.helm("template", out=RENDERED)
    world.helm("upgrade")
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    assert world.log.index("delete Secret sh.helm.release.v1.kai-scheduler.v1") < world.log.index(
        "helm upgrade --install"
    )


def test_pending_upgrade_is_deleted_and_the_deployed_revision_kept(world: LabWorld) -> None:
    for revision, status in ((1, "deployed"), (2, "pending-upgrade")):
        secret = release_secret(RELEASE, NAMESPACE, {}, version="v0.16.8", revision=revision, status=status)
        world.api.add(secret)
    world.helm("template", out=RENDERED)
    world.helm("upgrade")
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    deleted = [line for line in world.log if line.startswith("delete")]
    assert deleted == ["delete Secret sh.helm.release.v1.kai-scheduler.v2"]


def test_missing_image_stops_the_wait(world: LabWorld) -> None:
    world.helm("template", out=RENDERED)
    world.helm("upgrade")
    bad = running_pod("binder-1", NAMESPACE, labels={"app": "binder"}, waiting="ImagePullBackOff")
    world.api.add(bad)
    with pytest.raises(WaitTimeout, match="binder-1, container main: ImagePullBackOff"):
        Kai(world.spec).apply(world.ctx)


def test_initial_crashes_do_not_stop_the_wait(world: LabWorld) -> None:
    world.helm("template", out=RENDERED)
    world.helm("upgrade")
    bad = running_pod("binder-1", NAMESPACE, labels={"app": "binder"}, waiting="CrashLoopBackOff", restarts=2)
    world.api.add(bad)
    world.api.cluster.patience = 0.1
    with pytest.raises(WaitTimeout, match="not within"):
        Kai(world.spec).apply(world.ctx)


def test_observe_is_absent_and_then_ready(world: LabWorld) -> None:
    step = Kai(world.spec)
    assert step.observe(world.ctx).state is State.ABSENT
    install(world)
    world.api.fail("create", "Pod", DENIED)
    seen = step.observe(world.ctx)
    assert (seen.state, seen.detail) == (State.READY, "v0.16.8")
    assert not world.runner.calls


def test_observe_checks_the_webhooks_despite_ready_deployments(world: LabWorld) -> None:
    install(world)
    world.api.fail("create", "Pod", (500, "failed calling webhook: connection refused"))
    seen = Kai(world.spec).observe(world.ctx)
    assert (seen.state, seen.detail) == (State.DRIFTED, "its webhooks do not answer")


def test_observe_names_unavailable_deployments(world: LabWorld) -> None:
    install(world)
    world.api.add(ready_deployment("binder", NAMESPACE, available=0))
    seen = Kai(world.spec).observe(world.ctx)
    assert (seen.state, seen.detail) == (State.DRIFTED, "not Available: binder")


@pytest.mark.parametrize(("started", "state"), [("08:00:59", State.DRIFTED), ("08:01:00", State.READY)])
def test_status_older_than_the_start_of_its_node_is_not_believed(world: LabWorld, started: str, state: State) -> None:
    """A stopped lab that starts again shows the states of before, until kubelets and syncers write new ones."""
    install(world)
    world.starts("worker", "2026-11-25T08:01:00.9Z")
    running = [{"name": "main", "state": {"running": {"startedAt": f"2026-11-25T{started}Z"}}}]
    world.api.change("Pod", "binder", NAMESPACE, spec={"nodeName": "worker"}, status={"containerStatuses": running})
    world.api.fail("create", "Pod", DENIED)
    seen = Kai(world.spec).observe(world.ctx)
    assert (seen.state, seen.detail == "not Available: binder") == (state, state is State.DRIFTED)


def test_ready_pod_of_which_nothing_runs_is_not_believed(world: LabWorld) -> None:
    install(world)
    world.starts("worker", "2026-11-25T08:01:00Z")
    world.api.change("Pod", "binder", NAMESPACE, spec={"nodeName": "worker"}, status={"containerStatuses": []})
    assert Kai(world.spec).observe(world.ctx).detail == "not Available: binder"


def test_observe_lists_differences_of_values_and_version(world: LabWorld) -> None:
    values = release_values(world.spec)
    old = {**values, "global": {**values["global"], "gpuSharing": False}, "extra": {"a": 1}}
    world.api.add(release_secret(RELEASE, NAMESPACE, old, version="v0.14.7"))
    seen = Kai(world.spec).observe(world.ctx)
    assert seen.state is State.DRIFTED
    assert seen.diff == ("chart v0.14.7 → 0.16.8", "extra.a: 1 → not set", "global.gpuSharing: false → true")


def test_verify_accepts_the_refusal_of_the_webhook(world: LabWorld) -> None:
    install(world)
    world.api.put("SchedulingShard", "default")
    no_answer = (500, "failed calling webhook: connection refused")
    world.api.fail("create", "Pod", no_answer, no_answer, DENIED)
    Kai(world.spec).verify(world.ctx)
    assert world.log.count("create Pod kailab-webhook-check") == 3
    assert "delete Pod kailab-webhook-check" not in world.log


def test_verify_deletes_an_admitted_pod(world: LabWorld) -> None:
    install(world)
    world.api.put("SchedulingShard", "default")
    world.api.fail("create", "Pod", None, DENIED)
    Kai(world.spec).verify(world.ctx)
    assert [line.split()[0] for line in world.log] == ["create", "delete", "create"]


def test_verify_times_out_with_the_last_response(world: LabWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.steps.kai.step._WEBHOOK_SECONDS", 0.0)
    install(world)
    world.api.put("SchedulingShard", "default")
    world.api.fail("create", "Pod", (500, "no endpoints available"))
    with pytest.raises(WaitTimeout) as caught:
        Kai(world.spec).verify(world.ctx)
    assert caught.value.evidence == ("POST Pod default/kailab-webhook-check: no endpoints available (HTTP 500)",)


def test_verify_fails_without_the_shard(world: LabWorld) -> None:
    install(world)
    with pytest.raises(StepFailed, match="SchedulingShard default is missing"):
        Kai(world.spec).verify(world.ctx)


def test_undo_leaves_kai_to_the_removal_of_the_kind_cluster(world: LabWorld) -> None:
    Kai(world.spec).undo(world.ctx)
    assert world.log == []


def test_kai_of_others_is_not_changed(runner: FakeRunner, tmp_path: Path) -> None:
    world = kai_world(runner, tmp_path, cluster=EXISTING)
    world.api.put("Namespace", NAMESPACE)
    with pytest.raises(StepFailed, match="Namespace kai-scheduler was created") as refused:
        Kai(world.spec).apply(world.ctx)
    assert refused.value.fix.startswith("set kai.manage: adopt to use that KAI as it is; or ")
    world.api.add(release_secret(RELEASE, NAMESPACE, {}, version="v0.12.0"))
    assert Kai(world.spec).observe(world.ctx).state is State.DRIFTED
    Kai(world.spec).undo(world.ctx)
    assert world.log == []


def test_kai_of_a_user_on_the_cluster_of_the_lab_is_not_changed(world: LabWorld) -> None:
    """Nothing is applied to the namespace, and the owner is named."""
    world.api.put("Namespace", NAMESPACE, metadata={"managedFields": [{"manager": "helm", "operation": "Update"}]})
    world.api.add(release_secret(RELEASE, NAMESPACE, {}, version="v0.12.0"))
    seen = Kai(world.spec).observe(world.ctx)
    assert (seen.state, seen.detail[:65]) == (
        State.DRIFTED,
        "not the lab's: namespace kai-scheduler was created by helm at an ",
    )
    with pytest.raises(StepFailed, match="Namespace kai-scheduler was created by helm") as refused:
        Kai(world.spec).apply(world.ctx)
    assert refused.value.evidence == ("it has the Helm release kai-scheduler",)
    assert refused.value.fix.startswith("uninstall that KAI, or set scheduler: default; or hand it over to the lab: ")
    assert world.log == []


def test_crds_of_a_user_are_not_changed(world: LabWorld) -> None:
    notes = {"meta.helm.sh/release-name": "mine", "meta.helm.sh/release-namespace": "kai"}
    world.api.put("CustomResourceDefinition", "queues.scheduling.run.ai", metadata={"annotations": notes})
    what = r"CustomResourceDefinition queues\.scheduling\.run\.ai belongs to Helm release kai/mine"
    with pytest.raises(StepFailed, match=what):
        Kai(world.spec).apply(world.ctx)
    assert world.log == []


@pytest.mark.parametrize(
    ("kind", "name", "namespace", "line"),
    [
        ("ServiceAccount", "kai-operator", NAMESPACE, "ServiceAccount kai-scheduler/kai-operator is missing"),
        ("ClusterRole", "kai-operator", "", "ClusterRole kai-operator is missing"),
        ("Queue", "default-parent-queue", "", "Queue default-parent-queue is missing"),
        ("Config", "kai-config", "", "Config kai-config is missing"),
        (
            "CustomResourceDefinition",
            "podgroups.scheduling.run.ai",
            "",
            "CustomResourceDefinition podgroups.scheduling.run.ai is missing",
        ),
    ],
)
def test_observe_names_missing_objects(world: LabWorld, kind: str, name: str, namespace: str, line: str) -> None:
    install(world)
    world.api.remove(kind, name, namespace)
    seen = Kai(world.spec).observe(world.ctx)
    assert (seen.state, seen.diff) == (State.DRIFTED, (line,))


def test_component_that_is_scaled_to_zero_is_not_available(world: LabWorld) -> None:
    install(world)
    world.api.change("Deployment", "binder", NAMESPACE, spec={"replicas": 0}, status={"availableReplicas": 0})
    assert Kai(world.spec).observe(world.ctx).detail == "not Available: binder"


def test_default_queues_that_a_chart_creates_only_at_install_are_restored(runner: FakeRunner, tmp_path: Path) -> None:
    world = kai_world(runner, tmp_path, version="0.10.0")
    world.helm("upgrade")
    template = world.helm("template", out=RENDERED)
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    assert world.log[-2:] == ["apply Queue default-parent-queue", "apply Queue default-queue"]
    assert "templates/default-queue.yaml" in template.calls[0].argv


def test_chart_without_config_is_an_error() -> None:
    with pytest.raises(StepFailed, match="0 Config objects"):
        config_documents([{"kind": "ConfigMap", "data": {"a.yaml": "kind: Other\nmetadata: {name: a}"}}])


def test_effects_name_release_and_namespaces() -> None:
    texts = " ".join(effect.what for effect in Kai(lab_spec()).effects())
    assert "helm install kai-scheduler 0.16.8, gpuSharing on" in texts
    assert "kai-resource-reservation" in texts


def test_placeholders_that_a_kill_left_are_drift_and_deleted(world: LabWorld) -> None:
    """The host's binder counts them as reservation pods."""
    install(world)
    (left,) = placeholder_pods(("g1",), "demo", "kai-resource-reservation")
    world.api.add(left)
    seen = Kai(world.spec).observe(world.ctx)
    assert (seen.state, "placeholders" in seen.detail) == (State.DRIFTED, True)
    world.helm("template", out=RENDERED)
    world.helm("upgrade")
    come_up(world)
    Kai(world.spec).apply(world.ctx)
    assert world.api.of_kind("Pod", "kai-resource-reservation") == []
