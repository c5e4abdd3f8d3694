"""The queue above a lab's queues in an existing cluster."""

from __future__ import annotations

from typing import Any

import pytest

from lab.config import LabSpec, QueueSpec
from lab.config.budget import queues_budget, with_budget
from lab.config.loader import check_rules
from lab.errors import SpecError
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


TENANTS = [
    {"name": "plain", "mode": "default", "quota": {"gpus": 1}},
    {"name": "own", "mode": "own-kai", "kaiVersion": "0.16.8", "nodes": ["a"], "quota": {"gpus": 2}},
    {"name": "inside", "mode": "host-kai", "quota": {"gpus": 2}},
]


@pytest.mark.parametrize("exclusive", [False, True])
def test_queues_get_what_tenants_outside_them_leave(exclusive: bool) -> None:
    """Pods of host-kai tenants are in the lab's queues, and those of the others are not."""
    cluster = {**EXISTING, "exclusive": exclusive}
    spec = with_budget(lab_spec(cluster=cluster, budget={"gpus": 5.5}, tenants=TENANTS))
    assert (spec.queues[0].gpu.quota, spec.queues[0].gpu.limit) == (2.5 if exclusive else 0, 2.5)
    assert queues_budget(spec) == 2.5


def test_queue_of_a_lab_with_other_tenants_gets_another_limit() -> None:
    spec = with_budget(lab_spec(cluster=EXISTING, tenants=TENANTS[:1]))
    assert (spec.queues[0].gpu.limit, len(spec.queues)) == (3, 3)
    changed = with_budget(spec.model_copy(update={"tenants": ()}))
    assert (changed.queues[0].gpu.limit, changed.queues[1:]) == (4, spec.queues[1:])


def test_without_kai_all_tenants_are_outside() -> None:
    spec = lab_spec(cluster=EXISTING, scheduler="default", tenants=TENANTS[:1])
    assert (with_budget(spec), queues_budget(spec)) == (spec, 3)


@pytest.mark.parametrize("mode", ["default", "own-kai"])
def test_tenants_that_leave_nothing_for_the_queues_are_refused(mode: str) -> None:
    more = {"kaiVersion": "0.16.8", "nodes": ["a"]} if mode == "own-kai" else {}
    tenants = [{"name": "all", "mode": mode, "quota": {"gpus": 4}, **more}]
    with pytest.raises(ValueError, match=r"quotas of all, whose pods are in no queue .* leave nothing of budget.gpus"):
        lab_spec(cluster=EXISTING, tenants=tenants)
    assert lab_spec(cluster=EXISTING, tenants=tenants, scheduler="default").tenants
    assert lab_spec(cluster=EXISTING, tenants=tenants, budget={"gpus": 4.5}).tenants
    none = [{**tenants[0], "quota": {"gpus": 0}}]
    assert lab_spec(cluster=EXISTING, tenants=none, budget={"gpus": 0}).tenants


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


def test_lab_with_the_budgets_queue_follows_the_rules_and_one_that_names_it_does_not() -> None:
    """Settings of a running lab are checked with that queue, as before a tenant gets another KAI."""
    spec = with_budget(lab_spec(cluster=EXISTING, queues=[{"name": "team"}]))
    check_rules(spec, "a change")
    top = spec.queues[0].model_copy(update={"priority": 7})
    with pytest.raises(SpecError, match="is the queue with the lab's budget"):
        check_rules(spec.model_copy(update={"queues": (top, *spec.queues[1:])}), "a change")
