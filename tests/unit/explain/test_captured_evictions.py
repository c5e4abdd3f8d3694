"""Evictions and fair shares of a real cluster: KAI 0.16.8, 8 simulated GPUs on 2 nodes, queues prod and research.

Each file is a snapshot of ``kailab explain evictions --save``, reduced to what the explanations read.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.explain import explain_evictions
from lab.explain.owners import Ref
from lab.explain.queue_explanation import explain_queues
from lab.snapshot.cluster_snapshot import ClusterSnapshot

CAPTURED = Path(__file__).parents[2] / "data" / "evictions"


def captured(name: str) -> ClusterSnapshot:
    return ClusterSnapshot.load(CAPTURED / f"{name}.json.gz")


@pytest.mark.parametrize(
    ("name", "pods", "required", "evictor"),
    [
        ("reclaim", {"train-4-x8qq5", "train-5-mzwmz", "train-7-wn5dg"}, "yes", "Job questions/serve-"),
        ("preempt", {"train-6-fwrbb", "train-7-dllp7"}, "yes", "Job questions/urgent-"),
        ("consolidation", {"bare-6", "bare-7"}, "no", "Job questions/big-0"),
    ],
)
def test_an_action_of_kai(name: str, pods: set[str], required: str, evictor: str) -> None:
    found = explain_evictions(captured(name))
    mine = [(one, answer) for one, answer in zip(found.evictions, found.required, strict=True) if one.action == name]
    assert {pod for one, _ in mine for pod in one.pods} == pods
    assert {answer for _, answer in mine} == {required}
    assert all(one.evictor_workload.startswith(evictor) for one, _ in mine)


def test_a_lost_event_is_counted() -> None:
    """PodGroup pg-train-6 had 25 events about its wait, so the event of its eviction was lost."""
    (lost,) = (one for one in explain_evictions(captured("reclaim")).findings if one.rule == "eviction.events-lost")
    assert lost.what.startswith("reclaim evicted 1 pod of PodGroup questions/pg-train-6-")


def test_the_scheduler_s_log_line_is_evidence() -> None:
    found = explain_evictions(captured("reclaim"), Ref("Pod", "questions", "train-4-x8qq5"))
    assert any("Reclaimed resources for job <questions/pg-serve-3-" in line for line in found.findings[0].evidence)


@pytest.mark.parametrize("name", ["reclaim", "preempt", "consolidation"])
def test_kai_s_fair_shares_are_the_computed_ones(name: str) -> None:
    tree = explain_queues(captured(name))
    gpus = [queue.resources["gpu"] for queue in tree.queues]
    assert all(row.kai_fair == row.fair and row.status_allocated == row.allocated for row in gpus)
    assert not any(finding for queue in tree.queues for finding in queue.findings)


def test_loans_after_a_reclaim() -> None:
    research = explain_queues(captured("reclaim"), "questions-research").explained[0]
    assert research.resources["gpu"].borrowed == 1
    assert research.borrows_from == {"unreserved": 1}
