"""A violation is attributed to a known defect of KAI only with evidence of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from lab.errors import ApiFailed
from lab.invariants import Scope, Violation
from lab.invariants.known_defects import (
    COUNTED_ELSEWHERE,
    IN_STORM,
    OVER_PACKED,
    RETRIED,
    ROLLED_BACK,
    UNCOUNTED,
    Cause,
    awaits_proof,
    cause_of,
    with_cause,
    with_consequences,
)
from lab.kube import Cluster
from lab.serialization import to_json

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
EVIDENCE = (
    "pod kai-resource-reservation/gpu-reservation-1: Pending, on w, holds GPU (not reported yet), GPU group g",
    "pod t/server: Pending, on w, requests 0.7 of 1 GPU, GPU group g",
)
LOST = Violation(
    "GPU group g has 1 pods and no reservation pod",
    rule="reserved",
    subject="g",
    evidence=EVIDENCE,
    since=NOW,
    reported=NOW,
)


IN_BURST = "over-packed-burst"


class Binder:
    """A cluster with the log of KAI's binder, which cannot be read if it is None, and a BindRequest with its pod."""

    def __init__(self, log: str | None, request: Json | None = None, pod: Json | None = None) -> None:
        self.log = log
        self.request = request
        self.pod = pod

    def get(self, kind: str, name: str, namespace: str) -> Json | None:
        assert (kind, name, namespace) == ("Pod", "moved", "t")
        return self.pod

    def list(self, kind: str, namespace: str = "", labels: str = "") -> list[Json]:
        if kind == "BindRequest":
            return [self.request] if self.request else []
        assert (kind, namespace, labels) == ("Pod", "kai-scheduler", "app=binder")
        return [{"metadata": {"name": "binder-1"}}]

    def logs(self, pod: str, namespace: str) -> str:
        assert (pod, namespace) == ("binder-1", "kai-scheduler")
        if self.log is None:
            raise ApiFailed("no answer")
        return self.log


DELETED = (
    '2026-01-01T00:00:00Z INFO Did not find fraction pod for gpu group, deleting reservation pod {"gpuGroup": "g"}'
)


FAILED = (
    '2026-01-01T00:00:00Z ERROR Failed to bind pod to node {"controller": "bindrequest",'
    ' "BindRequest": {"name":"server","namespace":"t"}, "error": "ConfigMap not found"}'
)
BOTH = f"started\n{FAILED}\n{DELETED}\n"


def scope(version: str = "0.16.8", log: str | None = f"started\n{DELETED}\n") -> Scope:
    return Scope("", cast("Cluster", Binder(log)), kai_version=version)


def test_failed_bind_attempt_is_evidence_of_the_defect() -> None:
    found = with_cause(LOST, scope(log=BOTH))
    assert found.defect == RETRIED
    assert found.evidence == (*EVIDENCE, f"log of binder: {FAILED}", f"log of binder: {DELETED}")
    assert Violation.from_json(to_json(found)) == found


@pytest.mark.parametrize("other", ["started", FAILED.replace('"server"', '"client"'), FAILED.replace('"t"', '"u"')])
def test_deletion_without_a_failed_bind_is_the_defect_of_storms(other: str) -> None:
    found = with_cause(LOST, scope(log=f"{other}\n{DELETED}\n"))
    assert (found.defect, found.evidence) == (IN_STORM, (*EVIDENCE, f"log of binder: {DELETED}"))


@pytest.mark.parametrize(
    ("violation", "where"),
    [
        (LOST, scope(log="")),
        (LOST, scope(log=FAILED)),
        (LOST, scope(log=None)),
        (LOST, scope(log=BOTH.replace('"g"', '"other"'))),
        (LOST, scope("0.13.4", log=BOTH)),  # without the check that misses failed BindRequests
        (LOST, scope("", log=BOTH)),
        (replace(LOST, rule="queue-limit"), scope(log=BOTH)),
        (replace(LOST, evidence=EVIDENCE[:1]), scope(log=BOTH)),
        (replace(LOST, evidence=("queue server",)), scope(log=BOTH)),
    ],
)
def test_violation_without_evidence_is_unchanged(violation: Violation, where: Scope) -> None:
    assert with_cause(violation, where) is violation


@pytest.mark.parametrize(
    ("violation", "version", "cause"),
    [
        (replace(LOST, defect=RETRIED), "0.16.8", Cause((RETRIED,), ("none",), proven=True)),
        (LOST, "0.16.8", Cause((RETRIED, IN_STORM, COUNTED_ELSEWHERE), ("none",))),
        (LOST, "0.17.0", Cause((RETRIED, IN_STORM, COUNTED_ELSEWHERE), ("none",))),
        (
            replace(LOST, rule="gpu-fractions"),
            "0.17.0",
            Cause(("over-packed-burst", OVER_PACKED, COUNTED_ELSEWHERE, RETRIED, IN_STORM), ("none",)),
        ),
        (replace(LOST, rule="queue-limit"), "0.16.8", Cause()),
        (LOST, "", Cause()),
    ],
)
def test_cause_is_the_proven_defect_or_those_of_the_version(violation: Violation, version: str, cause: Cause) -> None:
    assert cause_of(violation, version) == cause


ON_TWO_NODES = replace(LOST, what="GPU group g is on 2 nodes: w, v", rule="group-on-one-node", evidence=EVIDENCE)


def test_what_else_a_lost_reservation_breaks_in_its_gpu_group_has_the_same_defect() -> None:
    """Seen with 0.16.8: the breaches of the group began seconds before the binder's log line."""
    proven = replace(LOST, defect=IN_STORM)
    assert [one.defect for one in with_consequences([LOST, ON_TWO_NODES, proven])] == [IN_STORM] * 3


REQUEST = {
    "metadata": {"name": "moved", "namespace": "t"},
    "spec": {"podName": "moved", "selectedNode": "v", "selectedGPUGroups": ["g"]},
    "status": {"phase": "Succeeded"},
}
MOVED = {
    "metadata": {"name": "moved", "namespace": "t", "labels": {"runai-gpu-group": "h"}},
    "spec": {"nodeName": "w", "containers": []},
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    "violation",
    [ON_TWO_NODES, LOST, replace(LOST, rule="gpu-fractions", evidence=("pod t/moved: Running, GPU group h",))],
)
def test_bind_request_of_another_group_than_its_pod_is_evidence(violation: Violation) -> None:
    where = Scope("", cast("Cluster", Binder("", REQUEST, MOVED)), kai_version="0.16.8")
    found = with_cause(violation, where)
    line = "BindRequest t/moved: to v, GPU group g; its pod is on w, GPU group h"
    assert (found.defect, found.evidence) == (COUNTED_ELSEWHERE, (*violation.evidence, line))


def test_deletion_of_the_reservation_pod_is_named_before_the_bind_request() -> None:
    where = Scope("", cast("Cluster", Binder(DELETED, REQUEST, MOVED)), kai_version="0.16.8")
    assert with_cause(LOST, where).defect == IN_STORM


@pytest.mark.parametrize(
    ("request_change", "pod_change"),
    [
        ({"status": {"phase": "Failed"}}, {}),  # the scheduler does not count it
        ({"spec": {**REQUEST["spec"], "selectedGPUGroups": ["other"]}}, {}),
        ({}, {"spec": {"containers": []}}),  # not bound
        ({}, {"metadata": {**MOVED["metadata"], "labels": {"runai-gpu-group": "g"}}}),
        ({}, {"metadata": {**MOVED["metadata"], "labels": {}}}),
    ],
)
def test_bind_request_that_fits_its_pod_is_no_evidence(request_change: Json, pod_change: Json) -> None:
    binder = Binder("", {**REQUEST, **request_change}, {**MOVED, **pod_change})
    assert with_cause(ON_TWO_NODES, Scope("", cast("Cluster", binder), kai_version="0.16.8")) is ON_TWO_NODES


@pytest.mark.parametrize(
    "other",
    [
        replace(ON_TWO_NODES, what="GPU group h is on 2 nodes: w, v", evidence=()),
        replace(ON_TWO_NODES, side="tenant a"),
        replace(ON_TWO_NODES, rule="queue-limit"),
        replace(ON_TWO_NODES, rule="one-reservation"),  # which this defect does not break
    ],
)
def test_another_group_cluster_or_invariant_is_no_consequence(other: Violation) -> None:
    assert with_consequences([replace(LOST, defect=IN_STORM), other])[1] == other


WITHOUT_GROUP = Violation(
    "pod t/server should have received Fraction in 1 GPU group, but has Fraction in 0 GPU groups",
    rule="received",
    subject="t/server",
    evidence=("pod t/server: Running, on w, requests 0.7 of 1 GPU",),
    since=NOW,
    reported=NOW,
)
ROLLBACK = (
    '2026-01-01T00:00:00Z INFO Rolling back for failed bind attempt... {"controller": "bindrequest",'
    ' "BindRequest": {"name":"server","namespace":"t"}}'
)


def test_rolled_back_bind_of_a_bound_pod_without_its_group_is_a_defect() -> None:
    found = with_cause(WITHOUT_GROUP, scope(log=f"started\n{ROLLBACK}\n"))
    assert (found.defect, found.evidence[1:]) == (ROLLED_BACK, (f"log of binder: {ROLLBACK}",))


@pytest.mark.parametrize(
    ("violation", "where"),
    [
        (WITHOUT_GROUP, scope(log="started\n")),
        (WITHOUT_GROUP, scope(log=ROLLBACK.replace('"server"', '"other"'))),
        (WITHOUT_GROUP, scope("0.9.8", log=ROLLBACK)),
        (replace(WITHOUT_GROUP, what="pod t/server has Regular in no GPU group"), scope(log=ROLLBACK)),
    ],
)
def test_pod_without_its_group_is_not_excused_without_the_rollback(violation: Violation, where: Scope) -> None:
    assert with_cause(violation, where) is violation


OVERFULL = replace(
    LOST,
    what="node w has 1 GPU, but its pods hold 2",
    rule="whole-gpus",
    evidence=(
        "pod kai-resource-reservation/gpu-reservation-1: Running, on w, holds GPU GPU-1, GPU group g, used by no pod",
        "pod kai-resource-reservation/gpu-reservation-2: Running, on w, holds GPU GPU-2, GPU group h, used by t/server",
    ),
)


def test_unused_reservation_that_the_binder_removes_is_not_counted_by_kai() -> None:
    found = with_cause(OVERFULL, scope())
    assert (found.defect, found.evidence[-1]) == (UNCOUNTED, f"log of binder: {DELETED}")
    assert not awaits_proof(found, scope())


@pytest.mark.parametrize(
    ("violation", "log", "awaited"),
    [
        (OVERFULL, "", True),
        (OVERFULL, DELETED.replace('"g"', '"h"'), True),  # the group in use
        (replace(OVERFULL, evidence=OVERFULL.evidence[1:]), DELETED, False),
        (replace(OVERFULL, rule="gpu-held-once"), DELETED, False),
    ],
)
def test_more_gpus_held_than_there_are_without_an_unused_reservation(
    violation: Violation, log: str, awaited: bool
) -> None:
    assert with_cause(violation, scope(log=log)) is violation
    assert awaits_proof(violation, scope()) is awaited


OVER_PACKED_GPU = replace(
    LOST,
    what="the shares of GPU GPU-1 of w add up to 1.5 GPUs (0.5 + 0.5 + 0.5)",
    rule="gpu-fractions",
    evidence=tuple(f"pod t/{name}: Running, on w, requests 0.5 of 1 GPU, GPU group g" for name in ("a", "b", "server")),
)


def test_gpu_with_a_pod_whose_first_bind_failed_is_over_packed_by_a_defect() -> None:
    found = with_cause(OVER_PACKED_GPU, scope(log=FAILED))
    assert (found.defect, found.evidence[-1]) == (OVER_PACKED, f"log of binder: {FAILED}")


@pytest.mark.parametrize("log", ["", FAILED.replace('"server"', '"other"'), ROLLBACK, FAILED.replace('"t"', '"u"')])
def test_over_packed_gpu_is_not_excused_without_a_failed_bind(log: str) -> None:
    assert with_cause(OVER_PACKED_GPU, scope(log=log)) is OVER_PACKED_GPU
