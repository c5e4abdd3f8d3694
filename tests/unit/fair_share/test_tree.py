"""Fair shares of queue trees: hierarchy and units, and trees whose shares KAI's own function computed."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lab.fair_share import QueueClaim, fair_shares
from lab.objects.kai import QueueShare
from tests.support.random_queues import random_tree, shares_of

RECORDED = json.loads((Path(__file__).parents[2] / "data" / "fair_share.json").read_text())
"""Trees of ``random_tree`` with the shares that setFairShareForQueues of KAI 0.16.8 returned."""


def queue(name: str, parent: str, quota: float, request: float, resource: str = "gpu") -> QueueClaim:
    return QueueClaim(name, parent, shares={resource: QueueShare(quota, -1, 1)}, request={resource: request})


def test_children_divide_the_share_of_their_parent() -> None:
    tree = [queue("top", "", 4, 20), queue("other", "", 4, 20), queue("a", "top", 0, 10), queue("b", "top", 3, 10)]
    found = {name: shares["gpu"].fair for name, shares in fair_shares(tree, {"gpu": 8}).items()}
    assert found == {"top": 4, "other": 4, "a": 0, "b": 3} | {"a": 1}


def test_a_queue_without_its_parent_has_no_share() -> None:
    assert set(fair_shares([queue("a", "missing", 1, 1), queue("b", "", 1, 1)], {"gpu": 1})) == {"b"}


def test_memory_is_in_mb_and_rounded_to_bytes() -> None:
    tree = [queue(name, "", 0, 9, "memory") for name in "abc"]
    assert fair_shares(tree, {"memory": 1})["a"]["memory"].fair == pytest.approx(0.333334)


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: f"{len(case['tree']['queues'])} queues")
def test_shares_equal_those_of_kai(case: dict[str, Any]) -> None:
    found = shares_of(case["tree"])
    assert found.keys() == case["shares"].keys()
    for name, shares in case["shares"].items():
        assert found[name] == pytest.approx(shares, rel=1e-9, abs=1e-9)


def test_a_child_never_gets_more_than_its_parent_except_by_quota() -> None:
    random = Random(1)
    for _ in range(30):
        tree = random_tree(random)
        found = shares_of(tree)
        for parent in tree["queues"]:
            rows = [row for row in tree["queues"] if row["parent"] == parent["name"]]
            for resource, share in found[parent["name"]].items():
                quotas = sum(
                    share if (quota := row["shares"][resource]["quota"]) == -1 else max(0.0, quota) for row in rows
                )
                given = sum(found[row["name"]][resource] for row in rows)
                assert given <= max(share, quotas) + 1e-6
