"""What manifests meet in a tenant, and on a host beside tenants with a KAI of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.config import LabSpec
from lab.errors import SpecError
from lab.findings import Finding
from lab.lint import LintContext, lint, parse
from lab.lint.context import TENANT_QUEUES, lint_context
from lab.objects import isolation_labels as names
from lab.objects.isolation_labels import HOST_KAI
from lab.tenants.vcluster.inner_lab import inner_spec
from tests.support.specs import lab_spec, lab_with, tenant_spec

OWN = tenant_spec("own-kai", "ml", kai_version="0.7.11", kubernetes="1.33.13", gpu_sharing=False)
OTHERS = (tenant_spec("host-kai", "dev"), tenant_spec("default", "plain"))
SPEC = lab_with(OWN, *OTHERS)
POD = (
    "apiVersion: v1\nkind: Pod\n"
    "metadata: {{name: p{namespace}, labels: {{kai.scheduler/queue: {queue}}}{notes}}}\n"
    "spec: {{schedulerName: kai-scheduler, containers: [{{name: c, image: i}}]}}\n---\n"
)


def pod(namespace: str = "", queue: str = "test", notes: str = "") -> str:
    where = f", namespace: {namespace}" if namespace else ""
    return POD.format(namespace=where, queue=queue, notes=notes)


def space(name: str, labels: str = "{}") -> str:
    return f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {labels}}}\n---\n"


def found(text: str, setting: LintContext) -> list[Finding]:
    return list(lint(parse(text), setting))


def rules(text: str, setting: LintContext) -> list[str]:
    return [one.rule for one in found(text, setting)]


def pools(*tenants: Any) -> LabSpec:
    """Three workers: one GPU each on the first two, four large ones on the last."""
    each = [
        {"name": "small", "workers": 2, "perNode": 1, "model": "T4"},
        {"name": "large", "workers": 1, "perNode": 4, "model": "A100-80"},
    ]
    gpu = {"mode": "simulated", "pools": each}
    return lab_spec(cluster={"workers": 3}, gpu=gpu, tenants=[tenant.model_dump() for tenant in tenants])


def test_the_names_are_the_labs() -> None:
    assert HOST_KAI == names.HOST_KAI
    assert inner_spec(SPEC, OWN).queues == TENANT_QUEUES


def test_a_tenant_is_judged_by_its_own_kai_and_queues() -> None:
    inside, host = lint_context(SPEC, "ml"), lint_context(SPEC)
    assert (inside.line.version, host.line.version) == ("0.7.11", SPEC.kai.version)
    assert (inside.gpu_sharing, host.gpu_sharing) == (False, True)
    assert set(inside.queues or ()) == {"default", "test"}
    assert "queue-unknown" not in rules(pod(), inside)
    assert "queue-unknown" in rules(pod(queue="default-queue"), inside)  # 0.7 has no default queues
    half = ", annotations: {gpu-fraction: '0.5'}"
    assert set(rules(pod(notes=half), inside)) - set(rules(pod(notes=half), host))


def test_queues_of_a_tenant_are_its_own() -> None:
    queues = ({"name": "top"}, {"name": "leaf", "parent": "top"})
    spec = lab_with(tenant_spec("own-kai", "ml", queues=queues))
    assert set(lint_context(spec, "ml").queues or ()) == {"default-parent-queue", "default-queue", "top", "leaf"}


def test_a_version_that_is_asked_for() -> None:
    assert lint_context(SPEC, "ml", "0.12.23").line.version == "0.12.23"
    assert lint_context(SPEC, version="0.14.7").line.version == "0.14.7"


def test_a_tenant_sees_the_gpus_of_its_nodes() -> None:
    spec = pools(tenant_spec("own-kai", "ml"), tenant_spec("host-kai", "dev"))
    assert (lint_context(spec, "ml").gpus_per_node, lint_context(spec, "ml").gpu_memory) == (4, 81920)
    assert [lint_context(spec, name).gpus_per_node for name in ("", "dev")] == [1, 1]
    assert lint_context(pools(tenant_spec("host-kai", "dev"))).gpus_per_node == 4


def test_a_tenant_that_cannot_be_judged() -> None:
    with pytest.raises(SpecError, match="no tenant 'mll'") as refusal:
        lint_context(SPEC, "mll")
    assert refusal.value.fix == "perhaps you meant ml"
    with pytest.raises(SpecError, match="no KAI schedules the pods of tenant plain"):
        lint_context(SPEC, "plain")


def test_a_namespace_without_the_label_is_not_the_hosts() -> None:
    (error,) = [one for one in found(space("team") + pod("team"), lint_context(SPEC)) if one.rule == "namespace-opt-in"]
    assert (error.severity, error.at) == ("error", ("metadata", "namespace"))
    assert "the pod stays Pending without an event" in error.what
    assert error.next == "kubectl label namespace team kailab.dev/kai=host"


def test_a_namespace_that_nobody_knows_may_have_it() -> None:
    (doubt,) = [one for one in found(pod("team"), lint_context(SPEC)) if one.rule == "namespace-opt-in"]
    assert doubt.severity == "warning"
    assert doubt.next == "kubectl label namespace team kailab.dev/kai=host"


@pytest.mark.parametrize("namespace", ["", "default"])
def test_the_lab_labels_the_namespace_default(namespace: str) -> None:
    assert "namespace-opt-in" not in rules(pod(namespace), lint_context(SPEC))
    assert "namespace-opt-in" in rules(pod(namespace), replace(lint_context(SPEC), namespaces={}))


def test_a_labelled_namespace_is_the_hosts() -> None:
    labelled = space("team", "{kailab.dev/kai: host}") + pod("team")
    assert "namespace-opt-in" not in rules(labelled, lint_context(SPEC))
    assert "namespace-opt-in" in rules(space("team", "{kailab.dev/kai: guest}") + pod("team"), lint_context(SPEC))


@pytest.mark.parametrize(
    "setting",
    [lint_context(SPEC, "ml"), lint_context(SPEC, "dev"), lint_context(lab_with(*OTHERS)), lint_context(lab_spec())],
)
def test_elsewhere_no_label_is_needed(setting: LintContext) -> None:
    assert "namespace-opt-in" not in rules(space("team") + pod("team"), setting)
    assert "namespace-opt-in" not in rules(pod().replace("kai-scheduler", "other"), lint_context(SPEC))
