"""Readiness and one-line states, on objects as servers send them."""

from __future__ import annotations

from typing import Any

import pytest

from lab.kube.describe import state_of
from lab.kube.readiness import is_ready, why_never
from lab.objects.views import Condition
from tests.support.kube_fake import pod


def workload(kind: str, spec: dict[str, Any], status: dict[str, Any], generation: int = 2) -> dict[str, Any]:
    meta = {"name": "w", "generation": generation}
    return {"kind": kind, "metadata": meta, "spec": spec, "status": {"observedGeneration": 2, **status}}


DONE = {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}


@pytest.mark.parametrize(
    ("obj", "ready"),
    [
        (workload("Deployment", {"replicas": 2}, DONE), True),
        (workload("Deployment", {"replicas": 2}, DONE, generation=3), False),
        (workload("Deployment", {"replicas": 2}, {**DONE, "updatedReplicas": 1}), False),
        (workload("Deployment", {"replicas": 2}, {**DONE, "replicas": 3}), False),
        (workload("Deployment", {}, {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}), True),
        (workload("Deployment", {"replicas": 0}, {}), True),
        (workload("StatefulSet", {"replicas": 2}, {**DONE, "availableReplicas": 1}), False),
        (workload("DaemonSet", {}, {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2}), False),
        (
            workload("DaemonSet", {}, {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2}),
            True,
        ),
        (pod("a", "Running"), True),
        (pod("a", "Running", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), False),
        ({"kind": "Namespace", "status": {"phase": "Active"}}, True),
        ({"kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}}, False),
        ({"kind": "Job", "status": {"conditions": [{"type": "Complete", "status": "True"}]}}, True),
        ({"kind": "CustomResourceDefinition", "status": {"conditions": []}}, False),
        ({"kind": "Config", "status": {"conditions": [{"type": "Ready", "status": "True"}]}}, True),
    ],
)
def test_readiness_of_each_kind(obj: dict[str, Any], ready: bool) -> None:
    assert is_ready(obj) is ready


def test_why_never_names_final_failures_only() -> None:
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"}
    assert why_never(workload("Deployment", {}, {"conditions": [late]})) == (
        "Deployment w: ProgressDeadlineExceeded: timed out"
    )
    assert why_never(workload("Deployment", {}, {"conditions": [late]}, generation=3)) is None
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "no"}
    assert why_never({"kind": "Job", "metadata": {"name": "j"}, "status": {"conditions": [failed]}}) == (
        "Job j: BackoffLimitExceeded: no"
    )
    config_error = {"name": "m", "state": {"waiting": {"reason": "CreateContainerConfigError"}}}
    assert why_never(pod("a", status={"containerStatuses": [config_error]})) is None


def test_state_shows_true_conditions_that_mean_failure() -> None:
    bad = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "denied"}
    good = {"type": "Available", "status": "True"}
    assert state_of(workload("Deployment", {}, {"conditions": [bad, good]})) == (
        "0 of 1 available; ReplicaFailure=True: FailedCreate (denied)"
    )
    assert state_of({"kind": "ConfigMap", "metadata": {"name": "c"}}) == "exists"
    assert Condition.all_of({"status": {"conditions": None}}) == ()
