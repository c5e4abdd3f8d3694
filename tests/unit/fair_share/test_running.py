"""The program that compares fair shares with a running KAI: what needs no lab."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.explain.queue_explanation import QueueTree
from lab.kai.names import QUEUE_LABEL
from scripts.fair_share_cases import differences, random_tree


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_pods_of_a_tree_are_in_leaf_queues(seed: str) -> None:
    queues, pods = random_tree(seed, 8)
    leaves = {queue.name for queue in queues} - {queue.parent for queue in queues}
    assert {pod["metadata"]["labels"][QUEUE_LABEL] for pod in pods} <= leaves
    assert random_tree(seed, 8) == (queues, pods)


@pytest.mark.parametrize(
    ("reported", "expected"),
    [(2.0, []), (2.005, []), (1.0, ["q gpu: KAI 1.0, computed 2 GPUs"]), (None, ["q gpu: KAI None, computed 2 GPUs"])],
)
def test_only_a_share_of_the_tree_that_differs_is_named(reported: float | None, expected: list[str]) -> None:
    def queue(name: str, kai: float | None) -> Any:
        return SimpleNamespace(name=name, resources={"gpu": SimpleNamespace(kai_fair=kai, fair=2.0)})

    tree = cast("QueueTree", SimpleNamespace(queues=(queue("q", reported), queue("other", 0.0))))
    assert list(differences(tree, ("q",))) == expected
