"""The queue above a lab's queues in an existing cluster."""

from __future__ import annotations

from typing import Any

import pytest

from lab.config import LabSpec, QueueSpec
from lab.config.budget import with_budget
from tests.support.specs import EXISTING, lab_spec


def tree(spec: LabSpec) -> dict[str, str | None]:
    return {queue.name: queue.parent for queue in spec.queues}


def test_queues_without_a_parent_get_the_budgets_queue() -> None:
    spec = with_budget(lab_spec(cluster=EXISTING, budget={"gpus": 2.5}))
    assert tree(spec) == {"demo": None, "default": "demo", "test": "default"}
    top = spec.queues[0]
    assert (top.gpu.quota, top.gpu.limit) == (0, 2.5), "a quota would make KAI evict pods of others"
    assert (top.cpu, top.memory) == (QueueSpec(name="x").cpu, QueueSpec(name="x").memory)
    assert with_budget(spec) == spec


def test_lab_without_queues_gets_a_leaf() -> None:
    spec = with_budget(lab_spec(cluster=EXISTING, queues=[]))
    assert tree(spec) == {"demo": None, "demo-default": "demo"}


def test_budget_is_guaranteed_where_nobody_else_uses_the_cluster() -> None:
    top = with_budget(lab_spec(cluster={**EXISTING, "exclusive": True})).queues[0]
    assert (top.gpu.quota, top.gpu.limit) == (4, 4)


def test_budget_of_zero_is_a_limit() -> None:
    assert with_budget(lab_spec(cluster=EXISTING, budget={"gpus": 0})).queues[0].gpu.limit == 0


@pytest.mark.parametrize(
    "sections",
    [
        {"budget": {"gpus": 2}},  # the lab's own cluster
        {"cluster": EXISTING, "gpus": "none", "budget": {}},
        {"cluster": EXISTING, "scheduler": "default"},
        {"cluster": EXISTING, "kai": {"manage": "none"}},
    ],
)
def test_spec_is_unchanged(sections: dict[str, Any]) -> None:
    spec = lab_spec(**sections)
    assert with_budget(spec) == spec
