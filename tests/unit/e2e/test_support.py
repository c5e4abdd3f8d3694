"""Helpers of the suites: scheduling decisions, inverse patches, usage history, and copied pods."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from lab.errors import WaitTimeout
from lab.objects.views import PodView
from lab.workloads.temporary import inverse
from tests.e2e.scheduling_decisions import NO_QUEUE, bound, decided, refusal, refused
from tests.e2e.syncing import CONFLICT, copied
from tests.e2e.usage_history import PORT, history_pod


def pod(*, node: str = "", **condition: str) -> PodView:
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", **condition}
    status = {"conditions": [unschedulable] if condition else []}
    return PodView.of({"spec": {"nodeName": node} if node else {}, "status": status})


def test_pod_without_a_condition_is_undecided() -> None:
    assert not decided(pod())
    assert refusal(pod()) == ""


def test_unschedulable_pod_is_refused() -> None:
    view = pod(message="no nodes with enough resources were found")
    assert decided(view)
    assert refused(view)
    assert not bound(view)


@pytest.mark.parametrize(
    "condition", [{"reason": "SchedulerError", "message": "x"}, {"status": "True", "message": "x"}, {"type": "Ready"}]
)
def test_other_conditions_are_no_decision(condition: dict[str, str]) -> None:
    assert not decided(pod(**condition))


def test_unknown_queue_is_no_decision_yet() -> None:
    view = pod(message=f"QueueDoesNotExist: Queue 'x' {NO_QUEUE}")
    assert refusal(view)
    assert not decided(view)


def test_message_from_before_binding_does_not_count() -> None:
    view = pod(node="worker", message="no nodes")
    assert bound(view)
    assert refusal(view) == ""


@pytest.mark.parametrize(
    ("change", "before", "undo"),
    [
        ({"kValue": 1}, {}, {"kValue": None}),
        ({"kValue": 1}, {"kValue": 2, "other": 3}, {"kValue": 2}),
        ({"a": {"gpu": "spread"}}, {"a": {"gpu": "binpack", "cpu": "x"}}, {"a": {"gpu": "binpack"}}),
        ({"a": {"b": {"c": 1}}}, {"a": {}}, {"a": {"b": None}}),
        ({"a": {"b": 1}}, {}, {"a": None}),
    ],
)
def test_inverse_of_a_merge_patch(change: dict[str, Any], before: dict[str, Any], undo: dict[str, Any]) -> None:
    assert inverse(change, before) == undo


def test_usage_history_answers_the_queries_of_kai() -> None:
    (container,) = history_pod("history", {"greedy": 1.0, "patient": 0.25})["spec"]["containers"]
    answers = {row["name"]: json.loads(row["value"])["data"] for row in container["env"]}
    settings = dict(re.findall(r"\*(\w+)\*\) echo \"\$(\w+)\"", container["command"][2]))
    # the metrics that KAI queries by default (usagedb/prometheus/prometheus.go)
    assert settings == {"kube_node_status_capacity": "CAPACITY", "kai_queue_allocated_gpus": "USAGE"}
    assert answers["CAPACITY"] == {"resultType": "vector", "result": [{"metric": {}, "value": [0, "1.0"]}]}
    used = {sample["metric"]["queue_name"]: float(sample["value"][1]) for sample in answers["USAGE"]["result"]}
    assert used == {"greedy": 1.0, "patient": 0.25}
    assert answers["NOTHING"]["result"] == []


def test_usage_history_is_ready_when_it_serves() -> None:
    (container,) = history_pod("history", {})["spec"]["containers"]
    assert container["readinessProbe"]["tcpSocket"]["port"] == PORT


class TenantNamespace:
    """A namespace of a tenant with ready pods, and its events."""

    namespace, tenant = "t", "ml"

    def __init__(self, labelled: set[str], *events: tuple[str, str, str]) -> None:
        self.labelled, self.events, self.cluster = labelled, events, self

    def inside(self, until: Callable[[PodView], bool], *names: str, what: str, **_: object) -> tuple[PodView, ...]:
        groups = {name: {"runai-gpu-group": "g"} if name in self.labelled else {} for name in names}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        pods = tuple(
            PodView.of({"metadata": {"name": name, "namespace": "t", "labels": labels}, "spec": {}, "status": ready})
            for name, labels in groups.items()
        )
        if not all(map(until, pods)):
            raise WaitTimeout(what)
        return pods

    def list(self, kind: str, namespace: str) -> list[dict[str, Any]]:
        return [
            {"metadata": {}, "involvedObject": {"kind": "Pod", "name": name}, "reason": reason, "message": message}
            for name, reason, message in self.events
        ]


LOST = ("a", "SyncError", f"patch host object: {CONFLICT}; please apply your changes")


@pytest.mark.parametrize(
    ("workloads", "expected"),
    [
        (TenantNamespace({"a", "b"}), None),
        (TenantNamespace({"b"}, LOST), pytest.xfail.Exception),
        (TenantNamespace({"b"}), WaitTimeout),
        (TenantNamespace({"a"}, LOST), WaitTimeout),
        (TenantNamespace({"b"}, ("a", "SyncError", "no such host")), WaitTimeout),
        (TenantNamespace({"b"}, ("a", "Bound", CONFLICT)), WaitTimeout),
    ],
)
def test_only_a_conflict_excuses_missing_labels(workloads: Any, expected: type[BaseException] | None) -> None:
    with pytest.raises(expected) if expected else nullcontext():
        assert len(copied(workloads, lambda pod: pod.gpu_groups == ("g",), "a", "b", what="labelled")) == 2


def test_no_conflict_is_excused_on_the_host() -> None:
    workloads: Any = TenantNamespace({"b"}, LOST)
    workloads.tenant = ""
    with pytest.raises(WaitTimeout):
        copied(workloads, lambda pod: pod.gpu_groups == ("g",), "a", "b", what="labelled")
