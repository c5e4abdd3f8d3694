"""Queues of a test: made parents first under names of their own, removed children first, whatever happens."""

from __future__ import annotations

from typing import Any

import pytest

from lab.config import QueueResource, QueueSpec
from lab.errors import ApiFailed
from lab.steps.queues import temporary_queues
from tests.support.cluster_fake import FakeCluster

TREE = (
    QueueSpec(name="alpha", parent="research", gpu=QueueResource(quota=0, limit=1)),
    QueueSpec(name="department"),
    QueueSpec(name="research", parent="department"),
)


class Refusing(FakeCluster):
    """Refuses deletions with these errors first."""

    def __init__(self, *errors: ApiFailed) -> None:
        super().__init__()
        self.errors = list(errors)

    def delete(self, kind: str, name: str, *args: Any, **more: Any) -> None:
        if self.errors:
            raise self.errors.pop(0)
        super().delete(kind, name, *args, **more)


def test_tree_is_made_and_removed() -> None:
    cluster = FakeCluster()
    with temporary_queues(cluster, "demo", TREE) as names:  # type: ignore[arg-type]
        assert set(names) == {"alpha", "department", "research"}
        alpha = cluster.objects["Queue", "", names["alpha"]]
        assert alpha["spec"]["parentQueue"] == names["research"]
        assert alpha["spec"]["resources"]["gpu"] == {"quota": 0, "limit": 1, "overQuotaWeight": 1}
        labels = {tuple(sorted(doc["metadata"]["labels"].items())) for doc in cluster.objects.values()}
        assert len(labels) == 1
        assert dict(labels.pop()).keys() == {"kailab", "kailab.dev/test"}
    order = [names["department"], names["research"], names["alpha"]]
    assert cluster.log == [
        *(f"apply Queue {name}" for name in order),
        *(f"delete Queue.scheduling.run.ai {name}" for name in reversed(order)),
    ]


def test_names_differ_from_tree_to_tree_and_a_foreign_parent_keeps_its_own() -> None:
    cluster = FakeCluster()
    child = QueueSpec(name="child", parent="default")
    with (
        temporary_queues(cluster, "demo", [child]) as first,  # type: ignore[arg-type]
        temporary_queues(cluster, "demo", [child]) as second,  # type: ignore[arg-type]
    ):
        assert first != second
        assert cluster.objects["Queue", "", first["child"]]["spec"]["parentQueue"] == "default"


def test_removed_after_a_failure_too() -> None:
    cluster = FakeCluster()
    with pytest.raises(RuntimeError), temporary_queues(cluster, "demo", TREE):  # type: ignore[arg-type]
        raise RuntimeError
    assert cluster.objects == {}


def test_waits_until_kai_knows_that_the_children_are_gone() -> None:
    late = ApiFailed("DELETE Queue x: cannot delete queue x: it has child queues [y]", status=403)
    cluster = Refusing(late, late)
    with temporary_queues(cluster, "demo", TREE):  # type: ignore[arg-type]
        pass
    assert cluster.objects == {}
    assert cluster.slept == pytest.approx(0.4)


def test_any_other_refusal_is_told_at_once() -> None:
    cluster = Refusing(ApiFailed("DELETE Queue x: forbidden", status=403))
    with pytest.raises(ApiFailed, match="forbidden"), temporary_queues(cluster, "demo", TREE):  # type: ignore[arg-type]
        pass
