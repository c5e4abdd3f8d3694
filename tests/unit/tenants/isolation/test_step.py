"""The three isolation measures between the host's KAI and own-kai tenants: checks, and the step that applies them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.config import LabSpec, TenantSpec
from lab.engine.step import State
from lab.errors import ApiFailed, StepFailed
from lab.kube import OWNER_LABEL
from lab.kube.transport import TransportError
from lab.objects.isolation_labels import HOST_KAI, HOST_KAI_LABEL, NODE_LABEL, OWN_KAI_LABEL
from lab.steps import admission_policy
from lab.tenants.isolation.checks import DEDICATED_NODES, DENY_HOST_KAI, MEASURES, NAMESPACE_OPT_IN, missing_measures
from lab.tenants.isolation.step import Isolation
from lab.tenants.steps import tenant_steps
from tests.support.explain_world import Scene, deployment, node
from tests.support.fakes import FakeRunner
from tests.support.isolation_world import IMAGE, MINE, SELECTING, SPACE, SPEC, put, scene, space, webhook
from tests.support.lab_world import LabWorld


def missing_in(state: Scene) -> list[tuple[str, str]]:
    return [(missing.measure.id, missing.what) for missing in missing_measures(SPEC, state.world)]


def test_nothing_is_missing_when_all_measures_apply() -> None:
    assert missing_in(scene()) == []


def test_measures_of_a_tenant_are_not_required_before_it_exists() -> None:
    assert missing_in(scene().remove("Namespace", SPACE)) == []


def test_cluster_without_kai_misses_the_namespace_opt_in() -> None:
    assert missing_in(Scene("")) == [("namespace-opt-in", "the host's KAI is not found")]


OMITTED = {
    "webhook": (
        NAMESPACE_OPT_IN,
        lambda s: s.add(webhook("mutating-kai-admission", labels={})),
        "matches the pods of all",
    ),
    "validating": (
        NAMESPACE_OPT_IN,
        lambda s: s.add(webhook("validating-kai-admission", labels={})),
        "matches the pods of all",
    ),
    "grouper": (
        NAMESPACE_OPT_IN,
        lambda s: s.add(deployment("pod-grouper", "kai-scheduler", IMAGE)),
        "pod-grouper handles",
    ),
    "old grouper": (
        NAMESPACE_OPT_IN,
        lambda s: s.add(deployment("pod-grouper", "kai-scheduler", IMAGE, have=0, args=SELECTING)),
        "not rolled out",
    ),
    "opened": (
        NAMESPACE_OPT_IN,
        lambda s: s.add(space(SPACE, **{OWN_KAI_LABEL: "true"}, **HOST_KAI)),
        f"has the label {HOST_KAI_LABEL}=host",
    ),
    "default": (NAMESPACE_OPT_IN, lambda s: s.add(space("default")), "namespace default is not labelled"),
    "pool key": (
        DEDICATED_NODES,
        lambda s: s.add(deployment("kai-scheduler-default", "kai-scheduler", IMAGE)),
        "node pool key",
    ),
    "shard": (
        DEDICATED_NODES,
        lambda s: s.add(
            deployment("kai-scheduler-ml", "kai-scheduler", "r/scheduler:v0.16.8", args=("--partition-label-value=ml",))
        ),
        "a SchedulingShard for the nodes of ml",
    ),
    "node": (DEDICATED_NODES, lambda s: s.remove("Node", MINE), "is missing"),
    "label": (DEDICATED_NODES, lambda s: s.add(node(MINE)), "lacks the label"),
    "taint": (DEDICATED_NODES, lambda s: s.add(node(MINE, labels={NODE_LABEL: "ml"})), "lacks the taint"),
    "binding": (
        DENY_HOST_KAI,
        lambda s: s.remove(admission_policy.BINDING, admission_policy.NAME),
        f"{admission_policy.BINDING} ",
    ),
    "space": (DENY_HOST_KAI, lambda s: s.add(space(SPACE)), f"lacks the label {OWN_KAI_LABEL}=true"),
}


@pytest.mark.parametrize("name", OMITTED)
def test_omission_is_reported_with_its_measure(name: str) -> None:
    measure, omit, message = OMITTED[name]
    state = scene()
    omit(state)
    ((which, what),) = missing_in(state)
    assert which == measure.id
    assert message in what


def test_missing_measure_describes_the_consequence() -> None:
    (missing,) = missing_measures(SPEC, scene().remove(admission_policy.BINDING, admission_policy.NAME).world)
    assert str(missing).startswith("deny-host-kai: ")
    assert "deletes the other running fractions" in str(missing)
    assert len({measure.without for measure in MEASURES}) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec.update(failurePolicy="Ignore"),
        lambda spec: spec["matchConstraints"]["resourceRules"][0].update(operations=["UPDATE"]),
        lambda spec: spec.pop("matchConditions"),
    ],
)
def test_changed_policy_is_reported_and_api_defaults_are_not(change: Any) -> None:
    doc, _ = admission_policy.documents("demo")
    doc["spec"]["matchConstraints"]["matchPolicy"] = "Equivalent"
    doc["spec"]["matchConstraints"]["resourceRules"][0]["scope"] = "*"
    assert missing_in(scene().add(doc)) == []
    change(doc["spec"])
    assert missing_in(scene().add(doc)) == [
        ("deny-host-kai", f"{admission_policy.POLICY} {admission_policy.NAME} has been changed")
    ]


def test_policy_is_owned_by_the_lab_and_matches_the_host_kai_only() -> None:
    rule, binding = admission_policy.documents("demo")
    assert rule["metadata"]["labels"] == binding["metadata"]["labels"] == {"kailab": "demo"}
    assert binding["spec"] == {"policyName": rule["metadata"]["name"], "validationActions": ["Deny"]}
    assert rule["spec"]["matchConstraints"]["namespaceSelector"] == {"matchLabels": {OWN_KAI_LABEL: "true"}}
    (condition,) = rule["spec"]["matchConditions"]
    assert "startsWith('system:serviceaccount:kai-scheduler:')" in condition["expression"]


DENIED = (403, f"ValidatingAdmissionPolicy '{admission_policy.NAME}' denied request")


@pytest.fixture
def world(runner: FakeRunner, tmp_path: Path) -> LabWorld:
    return LabWorld(SPEC, runner, tmp_path)


def test_step_exists_only_beside_a_host_kai() -> None:
    def ids(spec: LabSpec) -> set[str]:
        return {step.id for step in tenant_steps(spec)}

    assert "isolation" in ids(SPEC)
    assert "isolation" not in ids(SPEC.model_copy(update={"scheduler": "default"}))
    assert "isolation" not in ids(SPEC.model_copy(update={"tenants": (TenantSpec(name="a"),)}))


def test_effects_name_all_measures() -> None:
    text = "\n".join(effect.what for effect in Isolation(SPEC).effects())
    assert all(measure.how in text for measure in MEASURES)
    assert Isolation(SPEC).needs == ("kai", "tenant-nodes")


def test_observe_reports_missing_measures(world: LabWorld) -> None:
    step = Isolation(SPEC)
    put(world, scene())
    assert step.observe(world.ctx).state is State.READY
    put(world, scene().add(node(MINE)))
    seen = step.observe(world.ctx)
    assert (seen.state, len(seen.diff)) == (State.DRIFTED, 1)
    assert "without it both schedulers assign the same GPUs" in seen.diff[0]
    put(
        world,
        scene()
        .remove(admission_policy.BINDING, admission_policy.NAME)
        .remove(admission_policy.POLICY, admission_policy.NAME),
    )
    assert step.observe(world.ctx).state is State.ABSENT


def test_apply_creates_the_policy_and_corrects_labels(world: LabWorld) -> None:
    put(world, scene().add(space(SPACE, **HOST_KAI), space("vcluster-other", **{OWN_KAI_LABEL: "true"})))
    Isolation(SPEC).apply(world.ctx)
    labels = '{"kailab.dev/own-kai": "true", "kailab.dev/kai": null}'
    assert world.log == [
        f"apply {admission_policy.POLICY} {admission_policy.NAME}",
        f"apply {admission_policy.BINDING} {admission_policy.NAME}",
        'patch Namespace default {"metadata": {"labels": {"kailab.dev/kai": "host"}}}',
        f'patch Namespace {SPACE} {{"metadata": {{"labels": {labels}}}}}',
    ]


def test_apply_leaves_the_namespace_of_others_alone(world: LabWorld) -> None:
    put(world, scene().add(space(SPACE, kailab="other", **HOST_KAI)))
    Isolation(SPEC).apply(world.ctx)
    assert not [line for line in world.log if f"patch Namespace {SPACE}" in line]


def test_verify_waits_until_the_api_server_enforces_the_policy(world: LabWorld) -> None:
    api = put(world, scene())
    api.fail("create", "Pod", None, (403, "pods is forbidden: no service account"), DENIED)
    Isolation(SPEC).verify(world.ctx)
    assert world.log == ["create Pod kailab-policy-check (dry run)"] * 3
    assert api.cluster.pauses.slept == pytest.approx(1.0)


def test_verify_names_the_missing_measure_and_its_consequence(world: LabWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.tenants.isolation.step._SETTLE_SECONDS", 0)
    put(world, scene().add(webhook("mutating-kai-admission", labels={})))
    with pytest.raises(StepFailed, match="mutating-kai-admission matches the pods of all namespaces") as caught:
        Isolation(SPEC).verify(world.ctx)
    assert "CreateContainerConfigError" in caught.value.evidence[0]
    assert "deployment/kai-operator" in caught.value.fix


def test_unreachable_server_is_not_mistaken_for_a_missing_policy(world: LabWorld) -> None:
    api = put(world, scene())
    api.fail("create", "Pod", TransportError("no answer"))
    with pytest.raises(ApiFailed, match="no answer"):
        Isolation(SPEC).verify(world.ctx)


def on_existing_cluster() -> LabSpec:
    cluster = SPEC.cluster.model_copy(update={"provider": "existing"})
    return SPEC.model_copy(update={"cluster": cluster})


def test_undo_on_an_existing_cluster_removes_what_the_lab_created(world: LabWorld) -> None:
    put(world, scene().add(space("default"), space("kai-scheduler", kailab="demo")))
    step = Isolation(on_existing_cluster())
    step.apply(world.ctx)
    world.api.change("Namespace", "default", metadata=labelled_by("kailab"))
    world.log.clear()
    step.undo(world.ctx)
    assert world.log == [
        f"delete {admission_policy.BINDING} {admission_policy.NAME}",
        f"delete {admission_policy.POLICY} {admission_policy.NAME}",
        'patch Namespace default {"metadata": {"labels": {"kailab.dev/kai": null}}}',
    ]


def labelled_by(manager: str) -> dict[str, Any]:
    """Metadata with the label of the host's KAI, and who has set it."""
    fields = {"f:metadata": {"f:labels": {f"f:{HOST_KAI_LABEL}": {}}}}
    return {"labels": dict(HOST_KAI), "managedFields": [{"manager": manager, "fieldsV1": fields}]}


def test_undo_keeps_a_policy_of_another_owner(world: LabWorld) -> None:
    world.api.put(admission_policy.POLICY, admission_policy.NAME, metadata={"labels": {OWNER_LABEL: "other"}})
    Isolation(SPEC).undo(world.ctx)
    assert world.log == []


def test_label_of_somebody_else_stays(world: LabWorld) -> None:
    put(world, scene().add(space("kai-scheduler", kailab="demo")))
    world.api.put("Namespace", "default", metadata=labelled_by("kubectl-label"))
    step = Isolation(on_existing_cluster())
    step.apply(world.ctx)
    world.log.clear()
    step.undo(world.ctx)
    assert not [line for line in world.log if line.startswith("patch Namespace")]


def test_kai_of_another_owner_is_refused(world: LabWorld) -> None:
    put(world, scene().add(space("kai-scheduler", kailab="other")))
    with pytest.raises(Exception, match="is not the lab's"):
        Isolation(on_existing_cluster()).apply(world.ctx)
    assert world.log == []
