"""Whose an object is, and the refusal to apply over one of others."""

from __future__ import annotations

from typing import Any

import pytest

from lab.errors import StepFailed
from lab.kube.ownership import is_own, owner_of, refuse_foreign
from tests.support.fake_api_server import FakeApiServer

APPLIED = {"manager": "kailab", "operation": "Apply", "time": "2026-01-02T00:00:00Z"}
PATCHED = {**APPLIED, "operation": "Update"}
KUBECTL = {"manager": "kubectl-create", "operation": "Update", "time": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("meta", "own"),
    [
        ({"labels": {"kailab": "demo"}}, True),
        ({"labels": {"kailab": "other"}, "managedFields": [APPLIED]}, False),
        ({"managedFields": [APPLIED]}, True),
        ({"managedFields": [KUBECTL, PATCHED]}, False),
        ({}, False),
    ],
)
def test_object_is_the_labs_by_its_label_or_because_kailab_applied_it(meta: dict[str, Any], own: bool) -> None:
    assert is_own({"metadata": meta}, "demo") is own


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({"labels": {"kailab": "other"}}, "belongs to lab other"),
        (
            {"annotations": {"meta.helm.sh/release-name": "a", "meta.helm.sh/release-namespace": "b"}},
            "belongs to Helm release b/a",
        ),
        ({"labels": {"app.kubernetes.io/managed-by": "argocd"}}, "is managed by argocd"),
        (
            {"managedFields": [PATCHED, KUBECTL], "creationTimestamp": "2026-01-01T00:00:00Z"},
            "was created by kubectl-create at 2026-01-01T00:00:00Z",
        ),
        ({}, "was created at an unknown time"),
    ],
)
def test_owner_is_the_lab_the_release_the_manager_or_the_first_client(meta: dict[str, Any], words: str) -> None:
    assert owner_of({"metadata": meta}) == words


def test_refusal_names_each_foreign_object_and_how_to_hand_it_over() -> None:
    docs = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("mine", "theirs", "absent")
    ]
    docs.append({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "system"}})
    api = FakeApiServer()
    api.put("Namespace", "mine", metadata={"labels": {"kailab": "demo"}})
    refuse_foreign(api.cluster, "demo", docs)
    api.put("Namespace", "theirs", metadata={"labels": {"kailab": "other"}})
    api.put("DaemonSet", "agent", "system")
    with pytest.raises(StepFailed) as refused:
        refuse_foreign(api.cluster, "demo", docs)
    assert refused.value.what == "Namespace theirs belongs to lab other, and 1 more: lab demo does not change it"
    assert refused.value.evidence == (
        "Namespace theirs belongs to lab other",
        "DaemonSet system/agent was created at an unknown time",
    )
    assert refused.value.fix.endswith("label namespace theirs kailab=demo")
    assert api.log == []
