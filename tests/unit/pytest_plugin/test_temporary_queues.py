"""Temporary queues: unique names, created parents first, deleted children first, also after failures."""

from __future__ import annotations

import pytest

from lab.config import QueueResource, QueueSpec
from lab.errors import ApiFailed
from lab.steps.queues import temporary_queues
from tests.support.fake_api_server import FakeApiServer

TREE = (
    QueueSpec(name="alpha", parent="research", gpu=QueueResource(quota=0, limit=1)),
    QueueSpec(name="department"),
    QueueSpec(name="research", parent="department"),
)


def test_tree_is_created_parents_first_and_deleted_children_first() -> None:
    api = FakeApiServer()
    with temporary_queues(api.cluster, "demo", TREE) as names:
        assert set(names) == {"alpha", "department", "research"}
        alpha = api.objects["Queue", "", names["alpha"]]
        assert alpha["spec"]["parentQueue"] == names["research"]
        assert alpha["spec"]["resources"]["gpu"] == {"quota": 0, "limit": 1, "overQuotaWeight": 1}
        labels = {tuple(sorted(doc["metadata"]["labels"].items())) for doc in api.objects.values()}
        assert len(labels) == 1
        assert dict(labels.pop()).keys() == {"kailab", "kailab.dev/test", "kailab.dev/process"}
    order = [names["department"], names["research"], names["alpha"]]
    assert api.log == [
        *(f"apply Queue {name}" for name in order),
        *(f"delete Queue {name}" for name in reversed(order)),
    ]


def test_names_are_unique_and_existing_parents_keep_theirs() -> None:
    api = FakeApiServer()
    child = QueueSpec(name="child", parent="default")
    with (
        temporary_queues(api.cluster, "demo", [child]) as first,
        temporary_queues(api.cluster, "demo", [child]) as second,
    ):
        assert first != second
        assert api.objects["Queue", "", first["child"]]["spec"]["parentQueue"] == "default"


def test_queues_are_deleted_after_a_failure() -> None:
    api = FakeApiServer()
    with pytest.raises(RuntimeError), temporary_queues(api.cluster, "demo", TREE):
        raise RuntimeError
    assert api.objects == {}


def test_deletion_is_retried_while_kai_still_sees_children() -> None:
    api = FakeApiServer()
    late = (403, "cannot delete queue x: it has child queues [y]")
    api.fail("delete", "Queue", late, late)
    with temporary_queues(api.cluster, "demo", TREE):
        pass
    assert api.objects == {}
    assert api.cluster.pauses.slept == pytest.approx(0.4)


def test_other_errors_are_raised_at_once() -> None:
    api = FakeApiServer()
    api.fail("delete", "Queue", (403, "forbidden"))
    with pytest.raises(ApiFailed, match="forbidden"), temporary_queues(api.cluster, "demo", TREE):
        pass
