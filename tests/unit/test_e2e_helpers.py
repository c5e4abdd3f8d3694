"""What the suites stand on: reading decisions from pods, undoing patches, and the answers of the usage history."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lab.kube.views import PodView
from tests.e2e.shards import inverse
from tests.e2e.usage_history import PORT, history_pod
from tests.e2e.verdicts import NO_QUEUE, bound, decided, refusal, refused


def pod(*, node: str = "", **condition: str) -> PodView:
    said = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", **condition}] if condition else []
    return PodView.of({"spec": {"nodeName": node} if node else {}, "status": {"conditions": said}})


def test_a_pod_without_a_condition_is_not_decided() -> None:
    assert not decided(pod())
    assert refusal(pod()) == ""


def test_refused() -> None:
    view = pod(message="no nodes with enough resources were found")
    assert decided(view)
    assert refused(view)
    assert not bound(view)


@pytest.mark.parametrize(
    "condition", [{"reason": "SchedulerError", "message": "x"}, {"status": "True", "message": "x"}, {"type": "Ready"}]
)
def test_other_conditions_say_nothing(condition: dict[str, str]) -> None:
    assert not decided(pod(**condition))


def test_a_queue_that_is_not_known_yet_is_no_decision() -> None:
    view = pod(message=f"QueueDoesNotExist: Queue 'x' {NO_QUEUE}")
    assert refusal(view)
    assert not decided(view)


def test_what_was_said_before_a_pod_was_bound_counts_no_more() -> None:
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


def test_the_history_answers_what_kai_asks() -> None:
    (container,) = history_pod("history", {"greedy": 1.0, "patient": 0.25})["spec"]["containers"]
    answers = {row["name"]: json.loads(row["value"])["data"] for row in container["env"]}
    said = dict(re.findall(r"\*(\w+)\*\) echo \"\$(\w+)\"", container["command"][2]))
    # the metrics that KAI asks for by default (usagedb/prometheus/prometheus.go)
    assert said == {"kube_node_status_capacity": "CAPACITY", "kai_queue_allocated_gpus": "USAGE"}
    assert answers["CAPACITY"] == {"resultType": "vector", "result": [{"metric": {}, "value": [0, "1.0"]}]}
    used = {sample["metric"]["queue_name"]: float(sample["value"][1]) for sample in answers["USAGE"]["result"]}
    assert used == {"greedy": 1.0, "patient": 0.25}
    assert answers["NOTHING"]["result"] == []


def test_the_history_is_ready_when_it_serves() -> None:
    (container,) = history_pod("history", {})["spec"]["containers"]
    assert container["readinessProbe"]["tcpSocket"]["port"] == PORT
